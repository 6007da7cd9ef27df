// A Dockerfile as a build plan (types/build_plan.h). Instructions that cove does not have are
// refused here, with their line, before anything runs. No I/O.
#pragma once

#include "types/build_plan.h"

#define DOCKERFILE_MAX (512 * 1024)

// `out->args` has the build arguments of the request. INVALID bad_dockerfile, naming the line;
// TOO_LARGE.
fallible dockerfile_read(struct str text, struct build_plan *out);
