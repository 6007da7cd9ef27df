// btrfs, as far as a pool of boxes needs it: subvolumes and simple quotas (Linux 6.7), by ioctl.
#pragma once

#include <stdint.h>

#include "base/err.h"

// Makes the empty subvolume `name` in the directory `dir`.
fallible btrfs_make(int dir, const char *name);
// Out of sight at once; the kernel frees the space later. An absent one is dropped already.
fallible btrfs_drop(int dir, const char *name);
// The id of an open subvolume, which is that of its quota group too.
fallible btrfs_id(int subvolume, uint64_t *out);

// Simple quotas on; harmless when they are. NOT_OFFERED no_simple_quota on kernels without.
fallible btrfs_quota_on(int fs);
// No more than `bytes` for subvolume `id`, its metadata included.
fallible btrfs_quota_limit(int fs, uint64_t id, uint64_t bytes);
// Removes the group of a subvolume that is gone; not yet, while the kernel still counts it.
void btrfs_quota_forget(int fs, uint64_t id);
// Calls `each` with every subvolume's use as of the last commit (a write that met its limit has
// committed).
// Of one group alone; false: it is not known, as before the first commit.
bool btrfs_quota_used(int fs, uint64_t id, uint64_t *out);
fallible btrfs_quota_walk(int fs, void (*each)(void *arg, uint64_t id, uint64_t used), void *arg);

// The file system becomes as large as its device. Fails while chunks are being moved.
fallible btrfs_grow(int fs);
// The file system's only device: its size, and what chunks take of that; bytes. A chunk is taken
// when a write is accepted, not when the data reach the device.
struct btrfs_space {
	uint64_t size, chunks;
};
fallible btrfs_measure(int fs, struct btrfs_space *out);
// Moves the contents of chunks that are filled less than `percent` together (a balance). Takes as
// long as that does; btrfs_cancel() ends it early.
fallible btrfs_compact(int fs, unsigned int percent);
// The file system becomes smaller, 256 MiB at least: chunks beyond `bytes` are moved first. On the
// disk when it returns. Fails when they fit nowhere.
fallible btrfs_shrink(int fs, uint64_t bytes);
// Ends a compact or a shrink of another process, also one that a power cut interrupted. Waits for
// the chunk at hand.
void btrfs_cancel(int fs);

// Writes of this empty file go where its blocks are; without effect on other file systems.
void btrfs_no_cow(int file);
