// Bytes put aside until it is known what to do with them: the first ones in memory, more of them in
// an unnamed file of the daemon's own, so that a large body costs no memory.
#pragma once

#include "base/buf.h"
#include "base/err.h"

#define SPOOL_MEMORY (256 * 1024)

struct spool {
	int dir; // where the file is made; borrowed
	int file;
	struct buf memory; // what is not in the file
	uint64_t len;
};

void spool_init(struct spool *spool, int dir);
void spool_done(struct spool *spool);
#define auto_spool on_exit_call(spool_done) struct spool

// All of these may wait for the disk. NO_SPACE no_space is the host's.
fallible spool_add(struct spool *spool, struct str bytes);
// Bytes from `offset` on; *out = 0 at the end. Does not change it.
fallible spool_read(const struct spool *spool, uint64_t offset, void *room, size_t size,
		    size_t *out);
// All of it, to the end of a file. NO_SPACE no_space is that file's.
fallible spool_pour(const struct spool *spool, int file);
