// Builds of the Dockerfiles that clients send.
#pragma once

#include "gateway/gateway.h"
#include "manager/operations.h"

// Waits for the end of an operation while the client is there, and drops it. Its error.
fallible dockerfile_await(struct http *x, struct operation *operation);
// Builds the template `name`. Waits. Errors of builds_begin() and of the build.
fallible dockerfile_build(struct http *x, struct str name, struct str dockerfile);
// The template of a Dockerfile: the one that was built of the same text, or a new one. *out is in
// the exchange's arena. Errors of dockerfile_build().
fallible dockerfile_template(struct http *x, struct str dockerfile, const char **out);
