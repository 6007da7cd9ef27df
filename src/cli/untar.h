// Unpacks a hostile tar stream into a directory: nothing escapes it, no special files are made.
#pragma once

#include <stddef.h>

#include "base/err.h"

// Sets *out_at to at least one byte; *out_len 0 at the end. Valid until the next call.
typedef fallible untar_read_fn(void *arg, const void **out_at, size_t *out_len);

// Devices, sockets and pipes are omitted, and set-id bits; we own all files. INVALID bad_archive,
// cannot_unpack; errors of `read`. Changes the working directory meanwhile.
fallible untar(const char *dir, untar_read_fn *read, void *arg);
