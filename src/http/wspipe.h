// A TCP connection inside a WebSocket: bytes are binary messages, and an empty message is the end
// of its direction. Used by both sides.
#pragma once

#include "http/wsock.h"

#define WSPIPE_PIECE (32 * 1024)
#define WSPIPE_OPTIONS ((struct wsock_options){.max = 1 << 20, .silence_ms = 5 * 60 * 1000})

// Returns when both directions have ended, or one side is gone; the caller closes both. The current
// task is the socket's receiver. CANCELLED.
fallible wspipe_run(struct loop *loop, struct wsock *ws, struct stream *stream);
