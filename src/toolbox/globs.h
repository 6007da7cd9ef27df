// Lists of glob patterns in a request body.
#pragma once

#include "toolbox/path_arg.h"

#define GLOBS_MAX 256
#define GLOB_BYTES 1024

// Reads a list of strings, or one string, as a NULL-terminated array in the exchange's arena. *out
// is unchanged if the field is missing. INVALID bad_field.
fallible globs_read(struct path_arg *path_arg, const struct json *json, const char *name,
		    const char *const **out);
