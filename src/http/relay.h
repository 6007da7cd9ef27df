// A reverse proxy: passes a request to another server over an open connection, and its reply back.
// Bodies stream both ways at once, at the pace of the slower side. A WebSocket is opened the same
// way, then bytes are copied.
#pragma once

#include "http/relay_head.h"

// Answers x with the server's reply. Hop-by-hop fields are removed, and the framing is made anew.
// BAD_METHOD method_not_passed; BAD_PEER no_reply, bad_reply: no answer, or not HTTP; TIMEOUT
// no_reply. Nothing has been sent to the client then. BAD_PEER stale: a reused connection was
// closed before the reply; the client's request is untouched. A failure after the reply has begun
// cuts it.
fallible relay_run(struct http *x, const struct relay_options *options);
void relay_conn_close(struct relay_conn *conn);
