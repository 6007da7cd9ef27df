// A request passed on to another server, over a connection that stands, and its reply passed back:
// bodies stream both ways at once, at the pace of the slower side. A WebSocket is opened the same
// way, and is bytes from then on (http/tunnel.h).
#pragma once

#include "http/relay_options.h"

// Answers x with what the server says. Fields that concern one connection alone stay behind, and
// its framing is made anew. BAD_METHOD method_not_passed; BAD_PEER no_reply, bad_reply: it did not
// answer, or not in HTTP; TIMEOUT no_reply: not in time. Nothing has been sent to the client then.
// BAD_PEER stale: a reused connection was closed before the reply; the client's is as it was.
// Whatever fails once the reply has begun cuts it.
fallible relay_run(struct http *x, const struct relay_options *way);
