// The sandbox behind an id of the bridge, created at first use, and requests to its routes on the
// client's behalf, through an in-process exchange.
#pragma once

#include "cloudflare/path.h"
#include "gateway/gateway.h"
#include "http/in_process.h"
#include "http/upgrade.h"

// x->params[0] is the id. INVALID invalid_request; UNAVAILABLE capacity_exceeded; BAD_PEER
// pool_error. `out_id` gets the sandbox's own id.
fallible named_box_enter(struct http *x, char out_id[ID_BOX_LEN + 1]);
fallible named_box_check(struct http *x); // checks only the id
// The session that the request names in its header, or in the query as `session`; empty: none.
fallible named_box_session(struct http *x, struct str *out);
// "/v1/sandboxes/ID" and `rest`, in the arena.
const char *named_box_target(struct http *x, const char *id, const char *rest);
// A path within the workspace, in the arena. FORBIDDEN invalid_request: "`what` must resolve to …".
fallible named_box_path(struct http *x, const char *what, struct str path, struct str *out);

struct bridge_forward {
	struct http *x;	   // the outer exchange
	struct str probe;  // probe that may be sent between two pieces of the reply; empty: none
	int status;	   // of the inner reply; 0: none
	struct buf fault;  // the body of an inner reply that is not 2xx
	struct err *error; // the error that ended the outer exchange
};

// Maps an inner error to the bridge's format: kind by status, `code` as reason.
fallible bridge_forward_fault(const struct bridge_forward *forward, const char *code,
			      const char *what);
void bridge_forward_done(struct bridge_forward *forward);

// Sends the request and waits. A 2xx reply goes to the callbacks, any other into forward->fault;
// `arg` of the callbacks is the forward, so embed it as the first member. A client that disconnects
// cancels everything. `calls->head` may be NULL.
fallible bridge_forward_ask(struct bridge_forward *forward, const char *method, const char *target,
			    const char *type, struct str body,
			    const struct in_process_calls *calls);
// For the callbacks: bytes of the request's body and of the reply, at the client's pace.
fallible bridge_forward_read(struct bridge_forward *forward, void *room, size_t size, size_t *out);
fallible bridge_forward_write(struct bridge_forward *forward, const void *bytes, size_t len);

// A WebSocket that carries requests to the sandbox of the path: checks the request and the sandbox,
// then runs `talk`, whose `arg` is the prefix of all targets, "/v1/sandboxes/ID".
fallible bridge_upgrade(struct http *x, upgrade_fn *talk);
