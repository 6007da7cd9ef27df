// Pulls: the part of POST /v1/templates that names an image.
#pragma once

#include "codec/json.h"
#include "http/http.h"

struct registry_credential;
struct operation;

// {image, name, platform, auth}: begins the pull and answers the request.
fallible images_pull(struct http *x, const struct json *json);
// {username, password} or {identityToken}. INVALID bad_field; the caller wipes *out in any case.
fallible images_read_credential(const struct json *auth, struct registry_credential *out);
// The same with `shared`: a stored credential of the operator that tenants may use.
fallible images_read_login(const struct json *body, struct registry_credential *out,
			   bool *out_shared);
// The operation as JSON; its events, to its end.
fallible operations_answer(struct http *x, int status, const struct operation *operation);
fallible operations_follow(struct http *x, struct operation *operation);
// Answers the request that began the operation: 202 without `wait`, else its events or, by
// `answer`, its result. Drops the operation.
fallible operations_reply(struct http *x, struct operation *operation, bool wait,
			  fallible (*answer)(struct http *x, struct operation *operation));
