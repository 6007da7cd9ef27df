// Copies bytes between two connections in both directions: after an upgrade, or for a forwarded
// port.
#pragma once

#include "http/body_reader.h"

// Each end is a body_reader: its buffered bytes go first. Returns when both sides have ended, one
// has ended and the other is silent, one was lost, or no byte moved for `idle_ms`; the caller
// closes the streams. A slow reader slows its writer: only the bytes in flight are held. CANCELLED.
fallible tunnel_run(struct loop *loop, struct body_reader *one, struct body_reader *other,
		    int64_t idle_ms);
