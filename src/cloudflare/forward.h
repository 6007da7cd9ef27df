// Forwards a bridge request to a route of the sandbox, on the client's behalf, through an
// in-process exchange.
#pragma once

#include "gateway/gateway.h"
#include "http/in_process.h"

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
#define auto_carry on_exit_call(bridge_forward_done) struct bridge_forward

// Sends the request and waits. A 2xx reply goes to the callbacks, any other into forward->fault;
// `arg` of the callbacks is the forward, so embed it as the first member. A client that disconnects
// cancels everything. `calls->head` may be NULL.
fallible bridge_forward_ask(struct bridge_forward *forward, const char *method, const char *target,
			    const char *type, struct str body,
			    const struct in_process_calls *calls);
// For the callbacks: bytes of the request's body and of the reply, at the client's pace.
fallible bridge_forward_read(struct bridge_forward *forward, void *room, size_t size, size_t *out);
fallible bridge_forward_write(struct bridge_forward *forward, const void *bytes, size_t len);
