// The output of a command as it comes: the event stream of …/api/execute/stream, taken apart and
// written to our own stdout and stderr, byte for byte.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define FLOW_EVENT_MAX ((size_t)8 << 20) // one event; the daemon's are far smaller

struct flow {
	int out, err;	    // where the bytes go
	struct buf pending; // of an event that is not whole yet
	struct buf bytes;   // scratch
	bool done;	    // the last event came
	int exit_code;
	char ended[24]; // how: "exited", "oom" …
	bool truncated; // some output was dropped past the cap
};

void flow_init(struct flow *flow, int out, int err);
void flow_done(struct flow *flow);
// Feeds bytes of the stream, cut anywhere. BAD_PEER bad_event; CANCELLED pipe_closed when our own
// reader is gone, CANCELLED interrupted; the stream's own error event becomes an error.
fallible flow_feed(struct flow *flow, struct str bytes);
// All of it to a descriptor, waiting for a slow reader.
fallible flow_write(int fd, const void *bytes, size_t len);
// At least one byte, or *out = 0 at the end. The loop turns meanwhile, so that its time goes on.
fallible flow_read(int fd, void *room, size_t size, size_t *out);
