// The terms of a pool of prepared sandboxes: the body of PUT /v1/pools/{name}, checked. No I/O.
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "codec/json.h"

#define POOL_SIZE_MAX 256
#define POOL_BODY_MAX (256 * 1024)

struct pool_terms {
	uint64_t size;
	struct json *body;   // as the client gave it; the texts below are of it
	struct str template; // a template or snapshot
};

void pool_terms_done(struct pool_terms *terms);
#define auto_pool_terms on_exit_call(pool_terms_done) struct pool_terms

// {template, size, limits?, env?, start?, ready?}; `ready` is a command, {port} or {file}. limits
// and env are checked by the create of a member. INVALID bad_field, unknown_field.
fallible pool_terms_read(struct str text, struct pool_terms *out);
// Members of the body of a create: template, limits, env, start, ready.
void pool_terms_put_spec(struct json_out *out, const struct pool_terms *terms);
