// A directory as a tar stream, and back. The stream is made on the fly: sorted, with numeric ids
// and no user names, so that the same tree gives the same bytes.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct tar;

// Whether the path beneath the directory is left out: 1 the path, and all beneath a directory; 2
// the directory, and it is searched; 0 neither. Called by the thread.
typedef int tar_leave_fn(void *arg, const char *path, bool is_directory);

// A thread walks the tree and writes; *out_fd is the read end, owned by the caller. INVALID
// not_dir. `leave` NULL: all of it is packed.
fallible tar_start(const char *dir, tar_leave_fn *leave, void *arg, struct tar **out, int *out_fd);
// Call it when reading has ended, early or not: waits for the thread and returns its result. Frees
// it.
fallible tar_end(struct tar *tar);
// The same after `sent`, the result of sending the stream from *fd, which is closed first. An error
// of packing is returned in place of `sent`: the receiver may have refused a truncated tree.
fallible tar_close(struct tar *tar, int *fd, struct err *sent);

// Sets *out_at to at least one byte; *out_len 0 at the end. Valid until the next call.
typedef fallible untar_read_fn(void *arg, const void **out_at, size_t *out_len);

// Devices, sockets and pipes are omitted, and set-id bits; we own all files. INVALID bad_archive,
// cannot_unpack; errors of `read`. Changes the working directory meanwhile.
fallible untar(const char *dir, untar_read_fn *read, void *arg);
