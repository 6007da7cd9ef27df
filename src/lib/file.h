// File streams of other routes than those of a sandbox.
#pragma once

#include "lib/private.h"

// Begins to read the reply of `path` from `offset` on; with a type, to write its body. Takes
// ownership of the path.
enum cove_kind file_begin(struct cove *cove, const char *method, char *path, const char *type,
			  uint64_t offset, struct cove_file **out, struct cove_error *error);
