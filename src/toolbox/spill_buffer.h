// Bytes put aside until it is known what to do with them: the first ones in memory, more of them in
// an unnamed file of the daemon's own, so that a large body costs no memory.
#pragma once

#include "base/buf.h"
#include "base/err.h"

#define SPILL_BUFFER_MEMORY (256 * 1024)

struct spill_buffer {
	int dir; // where the file is made; borrowed
	int file;
	struct buf memory; // what is not in the file
	uint64_t len;
};

void spill_buffer_init(struct spill_buffer *spill_buffer, int dir);
void spill_buffer_done(struct spill_buffer *spill_buffer);
#define auto_spool on_exit_call(spill_buffer_done) struct spill_buffer

// All of these may wait for the disk. NO_SPACE no_space is the host's.
fallible spill_buffer_add(struct spill_buffer *spill_buffer, struct str bytes);
// Bytes from `offset` on; *out = 0 at the end. Does not change it.
fallible spill_buffer_read(const struct spill_buffer *spill_buffer, uint64_t offset, void *room,
			   size_t size, size_t *out);
// All of it, to the end of a file. NO_SPACE no_space is that file's.
fallible spill_buffer_copy(const struct spill_buffer *spill_buffer, int file);
