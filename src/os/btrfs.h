// btrfs, as far as a pool of boxes needs it: subvolumes and simple quotas (Linux 6.7), by ioctl.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

// Makes the empty subvolume `name` in the directory `dir`.
fallible btrfs_make(int dir, const char *name);
// Unlinked at once; the kernel frees the space later. OK if absent.
fallible btrfs_drop(int dir, const char *name);
// Makes `name` in `dir` a snapshot of the open subvolume `from`. What was written to `from` before
// is in it, and durable.
fallible btrfs_snapshot(int dir, int from, const char *name, bool read_only);
// The id of an open subvolume, which is that of its quota group too.
fallible btrfs_id(int subvolume, uint64_t *out);

// Enables simple quotas; idempotent. NOT_OFFERED no_simple_quota on kernels without.
fallible btrfs_quota_on(int fs);
// Limits subvolume `id` to `bytes`, its metadata included.
fallible btrfs_quota_limit(int fs, uint64_t id, uint64_t bytes);
// Removes the qgroup of a deleted subvolume; has no effect while the kernel still counts it.
void btrfs_quota_forget(int fs, uint64_t id);
// Usage as of the last commit (a write that met its limit has committed): of one qgroup, and of
// all. False: unknown, as before the first commit.
bool btrfs_quota_used(int fs, uint64_t id, uint64_t *out);
fallible btrfs_quota_walk(int fs, void (*each)(void *arg, uint64_t id, uint64_t used), void *arg);

// Grows the file system to the size of its device. Fails while chunks are being moved.
fallible btrfs_grow(int fs);
// The file system's only device: its size, and the bytes taken by chunks. A chunk is allocated when
// a write is accepted, not at writeback.
struct btrfs_space {
	uint64_t size, chunks;
};
fallible btrfs_measure(int fs, struct btrfs_space *out);
// Balances chunks that are filled less than `percent`. Blocks as long as that takes; btrfs_cancel()
// ends it early.
fallible btrfs_compact(int fs, unsigned int percent);
// Shrinks the file system, to 256 MiB at least: chunks beyond `bytes` are moved first. Durable when
// it returns. Fails if they fit nowhere.
fallible btrfs_shrink(int fs, uint64_t bytes);
// Ends a balance or shrink of another process, also one that a power cut interrupted. Waits for the
// current chunk.
void btrfs_cancel(int fs);

// Disables copy-on-write for this empty file; without effect on other file systems.
void btrfs_no_cow(int file);
