// The events of a cell, told to functions of an RPC client: what it gave as callbacks is called
// with each of them, in order, at the pace of its answers.
#pragma once

#include "codec/sse.h"
#include "toolbox/rpc_conn.h"

struct callback {
	struct sse_reader reader;
	struct rpc_conn_flow *flow;
	const int64_t *functions; // RPC_TABLE_FUNCTIONS of them; 0: none was given
};

void callback_init(struct callback *callback, struct rpc_conn_flow *flow, const int64_t *functions);
void callback_done(struct callback *callback);
// More of the stream of events. Waits while too much is unanswered.
fallible callback_pass(struct callback *callback, struct str bytes);
// All of it was passed: until the client has answered, then its functions are given back.
fallible callback_end(struct callback *callback);
