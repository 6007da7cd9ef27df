// Reads and writes of our own descriptors, interruptible by Ctrl-C.
#pragma once

#include "base/buf.h"
#include "base/err.h"

// Writes all of it, waiting for a slow reader. CANCELLED pipe_closed when the reader is gone,
// CANCELLED interrupted.
fallible stdio_write(int fd, const void *bytes, size_t len);
// The same; *rest is what was not written.
fallible stdio_write_on(int fd, struct str *rest);
// At least one byte, or *out = 0 at the end.
fallible stdio_read(int fd, void *room, size_t size, size_t *out);
// Appends everything up to the end. *fits is false when `out` is full before that.
fallible stdio_read_all(int fd, struct buf *out, bool *fits);
