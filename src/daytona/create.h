// The body of Daytona's create, as the spec of a sandbox.
#pragma once

#include "types/foreign_name.h"
#include "types/spec.h"

#define CREATE_AUTO_STOP_MINUTES 15
#define CREATE_AUTO_ARCHIVE_MINUTES 10080 // 7 days
#define CREATE_USER "daytona"
#define CREATE_MEMORY_MB 1024
#define CREATE_DISK_MB 3072
#define CREATE_MINUTES_MAX 43200 // 30 days

// INVALID bad_field, and the errors of spec_read(); NOT_OFFERED not_offered with a hint. Unknown
// members are ignored, as Daytona does. A Dockerfile of more than one line is the caller's to
// build: the spec has no template then. No I/O. The caller owns *out.
fallible create_read(const struct json *body, const struct spec_bounds *bounds, struct spec *out);
// The form of a new object's name. INVALID bad_name.
fallible create_name(struct str name, bool (*is_own)(struct str name),
		     char out[FOREIGN_NAME_MAX + 2]);
// The Dockerfile of `buildInfo`; empty: none. INVALID bad_field.
fallible create_dockerfile(const struct json *body, struct str *out);
// The hashes of the client's files that it is built with; *out NULL: none. INVALID bad_field.
fallible create_hashes(const struct json *body, const struct json **out);
// The interval of autoarchive in seconds: 0 minutes are the longest.
uint64_t create_archive_after_s(uint64_t minutes);
// Whether a value asks for something: not null, false, 0, "", [] or {}.
bool create_is_asked(const struct json *value);
// The image of a Dockerfile that has no other line than FROM; else false.
bool create_from_line(struct str dockerfile, struct str *out_image);
