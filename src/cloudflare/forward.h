// A request of the bridge carried into the sandbox: the same routes and handlers as everybody's,
// asked on the client's behalf.
#pragma once

#include "gateway/gateway.h"
#include "http/in_process.h"

struct bridge_forward {
	struct http *x;	   // the outer exchange
	struct str probe;  // what may be sent between two pieces of the reply; empty: nothing
	int status;	   // of the inner reply; 0: there was none
	struct buf fault;  // the body of an inner reply that is no 2xx
	struct err *upset; // what stopped the outer exchange
};

// The words of an inner error, for the bridge's own: kind by status, `code` as reason.
fallible bridge_forward_fault(const struct bridge_forward *carry, const char *code,
			      const char *what);
void bridge_forward_done(struct bridge_forward *carry);
#define auto_carry on_exit_call(bridge_forward_done) struct bridge_forward

// Asks and waits. A 2xx reply goes to the calls, all else into carry->fault; `arg` of the calls is
// the carry, so it is embedded at the front of what they need. A client that leaves meanwhile ends
// it all. `calls->head` may be NULL.
fallible bridge_forward_ask(struct bridge_forward *carry, const char *method, const char *target,
			    const char *type, struct str body,
			    const struct in_process_calls *calls);
// To be used by the calls: bytes of the request's body and of the reply, with the client's pace.
fallible bridge_forward_read(struct bridge_forward *carry, void *room, size_t size, size_t *out);
fallible bridge_forward_write(struct bridge_forward *carry, const void *bytes, size_t len);
