// The sandbox behind an id of the bridge: the sandbox of that name, created at first use.
#pragma once

#include "cloudflare/forward.h"
#include "cloudflare/path.h"

// x->params[0] is the id. INVALID invalid_request; UNAVAILABLE capacity_exceeded; BAD_PEER
// pool_error. `out_id` gets the sandbox's own id.
fallible named_box_enter(struct http *x, char out_id[ID_BOX_LEN + 1]);
fallible named_box_check(struct http *x); // checks only the id
// The session that the request names in its header, or in the query as `session`; empty: none.
fallible named_box_session(struct http *x, struct str *out);
// "/v1/sandboxes/ID" and `rest`, in the arena.
const char *named_box_target(struct http *x, const char *id, const char *rest);
