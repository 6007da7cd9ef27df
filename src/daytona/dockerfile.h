// Builds of the Dockerfiles that clients send.
#pragma once

#include "gateway/gateway.h"
#include "manager/operations.h"

// Waits for the end of an operation while the client is there, and drops it. Its error.
fallible dockerfile_await(struct http *x, struct operation *operation);
// `buildInfo` of a body. The hashes are those of storage.h; NULL: none.
struct dockerfile_source {
	struct str text;
	const struct json *hashes;
};
// Begins to build the template `name`. The caller drops *out. Waits. Errors of builds_begin() and
// storage_context().
fallible dockerfile_begin(struct http *x, struct str name, const struct dockerfile_source *source,
			  struct operation **out);
// The template of a Dockerfile: the one that was built of the same text and files, or a new one.
// *out is in the exchange's arena. Errors of dockerfile_begin() and of the build.
fallible dockerfile_template(struct http *x, const struct dockerfile_source *source,
			     const char **out);
