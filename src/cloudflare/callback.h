// Delivers the events of a cell to callback functions of an RPC client: one call for each event, in
// order. Flow control is that of rpc_stream.c: a slow client delays the cell's events.
#pragma once

#include "cloudflare/rpc_conn.h"
#include "codec/sse.h"

struct callback {
	struct sse_reader reader;
	struct rpc_conn_flow *flow;
	const int64_t *functions; // RPC_TABLE_FUNCTIONS entries; 0: the client gave none
};

void callback_init(struct callback *callback, struct rpc_conn_flow *flow, const int64_t *functions);
void callback_done(struct callback *callback);
// Takes more bytes of the event stream. Waits while too many calls are unanswered.
fallible callback_pass(struct callback *callback, struct str bytes);
// The stream is complete. Waits until the client has answered every call, then releases its
// functions.
fallible callback_end(struct callback *callback);
