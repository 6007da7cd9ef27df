// A byte buffer for bodies that cannot be used yet. The first bytes are in memory, the rest in an
// unnamed file of the daemon, so that a large body takes no memory.
#pragma once

#include "base/buf.h"
#include "base/err.h"

#define SPILL_BUFFER_MEMORY (256 * 1024)

struct spill_buffer {
	int dir; // directory of the file; borrowed
	int file;
	struct buf memory; // bytes that are not in the file
	uint64_t len;
};

void spill_buffer_init(struct spill_buffer *spill_buffer, int dir);
void spill_buffer_done(struct spill_buffer *spill_buffer);
#define auto_spill_buffer on_exit_call(spill_buffer_done) struct spill_buffer

// All of these may wait for the disk. NO_SPACE no_space means the host's disk.
fallible spill_buffer_add(struct spill_buffer *spill_buffer, struct str bytes);
// Reads bytes from `offset` on; *out = 0 at the end.
fallible spill_buffer_read(const struct spill_buffer *spill_buffer, uint64_t offset, void *room,
			   size_t size, size_t *out);
// Appends all bytes to a file. NO_SPACE no_space means that file's disk.
fallible spill_buffer_copy(const struct spill_buffer *spill_buffer, int file);
