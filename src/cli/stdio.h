// Bytes to and from our own descriptors, whatever they are, with an eye on Ctrl-C.
#pragma once

#include "base/err.h"
#include "base/str.h"

// All of it to a descriptor, waiting for a slow reader. CANCELLED pipe_closed when our reader is
// gone, CANCELLED interrupted.
fallible stdio_write(int fd, const void *bytes, size_t len);
// At least one byte, or *out = 0 at the end.
fallible stdio_read(int fd, void *room, size_t size, size_t *out);
