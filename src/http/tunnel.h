// Bytes between two connections, both ways, whatever they mean: after an upgrade, or for a port
// that somebody forwards.
#pragma once

#include "http/body_reader.h"

// Each end is an inlet: what was read too far goes first. Returns when both sides have ended, one
// has ended and the other says nothing more, one was lost, or no byte moved for `idle_ms`; the
// caller closes the streams. A slow reader slows its writer: nothing is held but what is under way.
// CANCELLED.
fallible tunnel_run(struct loop *loop, struct body_reader *one, struct body_reader *other,
		    int64_t idle_ms);
