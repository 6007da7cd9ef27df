// A TCP connection inside of a WebSocket: bytes are binary messages, and an empty one is the end of
// what its side has to say. For both sides of it.
#pragma once

#include "http/wsock.h"

#define WSPIPE_PIECE (32 * 1024)
#define WSPIPE_OPTIONS ((struct wsock_options){.max = 1 << 20, .silence_ms = 5 * 60 * 1000})

// Returns when both have said all, or one is gone; the caller closes both. The current task is the
// socket's receiver. CANCELLED.
fallible wspipe_run(struct loop *loop, struct wsock *ws, struct stream *stream);
