// The size of the btrfs pool. A process of its own (cove-pool) grows the file ahead of the writes
// of sandboxes, in preallocated steps, and shrinks it when space was freed. Neither blocks the
// warden. The process dies with the warden, at any step, and the next one continues from there.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define POOL_START (256ull << 20) // also the smallest size to which btrfs can be shrunk

// Set by the operator: never smaller than `start`, never larger than `max` (0: no limit).
struct pool_bounds {
	uint64_t start, max;
};

// Descriptors of the pool. The caller keeps them open until pool_size_stop().
struct pool_files {
	int data, file, device, root;
	int lock; // held by flock: see pool_size_lock()
};

struct pool_size;

// Waits until the resize processes of an earlier warden are gone: one of them could still truncate
// the file. The lock lasts as long as *out_fd and its copies.
fallible pool_size_lock(int data, const char *name, int *out_fd);

// The size of the next step of a pool with `chunks` bytes in use; 0: no room.
fallible pool_size_step(int data, const struct pool_bounds *bounds, uint64_t size, uint64_t chunks,
			uint64_t *out);

fallible pool_size_new(const struct pool_files *files, const struct pool_bounds *bounds,
		       struct pool_size **out);
// Forks the process if it is not running. Call it after start, and periodically.
void pool_size_keep(struct pool_size *size);
// A child ended: true if it was this one.
bool pool_size_reaped(struct pool_size *size, int pid);
// The number of disks. 0: nothing can write, and the process sleeps.
void pool_size_set_disks(struct pool_size *size, size_t count);
// The most that one sandbox may still write: kept free after a request was too large for the free
// space.
void pool_size_set_unspent(struct pool_size *size, uint64_t bytes);
// The last attempt to grow found no room, and growth is needed.
bool pool_size_is_stuck(const struct pool_size *size);
void pool_size_stop(struct pool_size *size); // NULL: nothing
