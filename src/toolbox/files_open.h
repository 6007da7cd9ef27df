// A file that is about to be sent. A small file is read into memory; a larger one is an fd that
// worker threads read.
#pragma once

#include "toolbox/path_arg.h"

struct open_file {
	struct fileop_stat stat;
	struct buf small;
	int fd;		  // -1: the content is in `small`
	const char *type; // MIME
};

// Opens path_arg's file. `as_fd`: opens an fd for a small file too. The caller calls
// open_file_done() in any case.
fallible open_file_open(struct path_arg *path_arg, bool as_fd, struct open_file *out);
void open_file_done(struct open_file *file);
#define OPEN_FILE_NONE ((struct open_file){.fd = -1})
#define auto_open_file on_exit_call(open_file_done) struct open_file

// Reads bytes from `offset` on; *out = 0 at the end. May wait for the disk.
fallible open_file_read(struct open_file *file, uint64_t offset, void *room, size_t size,
			size_t *out);

// TOO_LARGE file_too_large: the file does not fit into JSON. Its sizes are set in path_arg for the
// error.
fallible open_file_too_large(struct path_arg *path_arg, uint64_t size);
