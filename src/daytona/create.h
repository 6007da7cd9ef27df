// The body of Daytona's create, as the spec of a sandbox.
#pragma once

#include "types/spec.h"

#define CREATE_AUTO_STOP_MINUTES 15
#define CREATE_MINUTES_MAX 43200 // 30 days

// Labels of cove that keep Daytona's settings of a sandbox. Daytona's clients do not see them.
#define CREATE_LABEL_ARCHIVE ENV_MAP_RESERVED "auto-archive"

// INVALID bad_field, and the errors of spec_read(); NOT_OFFERED not_offered with a hint. Unknown
// members are ignored, as Daytona does. No I/O. The caller owns *out.
fallible create_read(const struct json *body, const struct spec_bounds *bounds, struct spec *out);
// The image of a Dockerfile that has no other line than FROM; else false.
bool create_from_line(struct str dockerfile, struct str *out_image);
