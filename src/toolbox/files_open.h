// A file that is about to be sent: small ones are in memory, others are an fd that a worker reads.
#pragma once

#include "toolbox/path_arg.h"

struct source {
	struct fileop_stat stat;
	struct buf small;
	int fd;		  // -1: all of it is in `small`
	const char *type; // MIME
};

// Opens the place's file. `as_fd`: even a small one. The caller calls source_done() in any case.
fallible source_open(struct path_arg *path_arg, bool as_fd, struct source *out);
void source_done(struct source *source);
#define SOURCE_NONE ((struct source){.fd = -1})
#define auto_source on_exit_call(source_done) struct source

// The next bytes from `offset` on; *out = 0 at the end. May wait for the disk.
fallible source_read(struct source *source, uint64_t offset, void *room, size_t size, size_t *out);

// TOO_LARGE file_too_large, with its sizes in the place: it does not fit into JSON.
fallible source_too_large(struct path_arg *path_arg, uint64_t size);
