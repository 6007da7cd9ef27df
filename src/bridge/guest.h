// The sandbox behind an id of the bridge: one of that name, made on first use.
#pragma once

#include "bridge/carry.h"
#include "bridge/path.h"

// x->params[0] is the id. INVALID invalid_request; UNAVAILABLE capacity_exceeded; BAD_PEER
// pool_error. `out_id` gets the sandbox's own id.
fallible guest_enter(struct http *x, char out_id[ID_BOX_LEN + 1]);
fallible guest_check(struct http *x); // only the id
// The session that the request names in its header, or in the query as `session`; empty: none.
fallible guest_session(struct http *x, struct str *out);
// "/v1/sandboxes/ID" and what follows it, in the arena.
const char *guest_target(struct http *x, const char *id, const char *rest);
