// The size of the btrfs pool. A process of its own (cove-pool) grows the file ahead of what
// sandboxes write, in preallocated steps, and gives back what was freed: neither holds up the
// warden. The process dies with the warden, at any step, and the next one goes on from there.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define POOL_START (256ull << 20) // also the least that btrfs can be shrunk to

// The operator's: never smaller than `start`, never larger than `max` (0: whatever the host has).
struct pool_bounds {
	uint64_t start, max;
};

// Descriptors of the pool: they stay the caller's, and open until pool_size_stop().
struct pool_files {
	int data, file, device, root;
	int lock; // held by flock: see pool_size_lock()
};

struct pool_size;

// Waits until the processes of an earlier warden that grew or shrank the file are gone: one of them
// could still be about to truncate it. The lock lasts as long as *out_fd and its copies.
fallible pool_size_lock(int data, const char *name, int *out_fd);

// How large the next step of a pool that has `chunks` bytes in use would be; 0: there is no room.
fallible pool_size_step(int data, const struct pool_bounds *bounds, uint64_t size, uint64_t chunks,
			uint64_t *out);

fallible pool_size_new(const struct pool_files *files, const struct pool_bounds *bounds,
		       struct pool_size **out);
// Forks the process if it does not run. Call it after start, and now and then.
void pool_size_keep(struct pool_size *size);
// A child ended: true when it was this one.
bool pool_size_reaped(struct pool_size *size, int pid);
// How many disks there are. None: nobody can write, and the process rests.
void pool_size_set_disks(struct pool_size *size, size_t count);
// The most that one sandbox may still write: so much is made free once a request was too large for
// what there is.
void pool_size_set_unspent(struct pool_size *size, uint64_t bytes);
// The last attempt to grow found no room, and it is needed.
bool pool_size_is_stuck(const struct pool_size *size);
void pool_size_stop(struct pool_size *size); // NULL: nothing
