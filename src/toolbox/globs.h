// Lists of patterns in a body.
#pragma once

#include "toolbox/path_arg.h"

#define GLOBS_MAX 256
#define GLOB_BYTES 1024

// A list of strings, or one string, NULL-ended, in the exchange's arena; *out is left alone when
// there is none. INVALID bad_field.
fallible globs_read(struct path_arg *path_arg, const struct json *json, const char *name,
		    const char *const **out);
