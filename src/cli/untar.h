// A tar stream of a stranger, unpacked into a directory of ours: nothing leaves it, nothing in it
// becomes special.
#pragma once

#include <stddef.h>

#include "base/err.h"

// At least one byte into *out_at, *out_len 0 at the end. The bytes live until the next call.
typedef fallible untar_read_fn(void *arg, const void **out_at, size_t *out_len);

// Devices, sockets and pipes are left out, set-id bits too; owners are ours. INVALID bad_archive,
// cannot_unpack; and what `read` says. Changes the working directory while it works.
fallible untar(const char *dir, untar_read_fn *read, void *arg);
