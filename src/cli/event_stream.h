// A stream of events across restarts of the daemon: each new stream starts after the last event
// taken.
#pragma once

#include "cli/call.h"
#include "codec/sse.h"

struct event_stream {
	struct call *call;
	void (*path)(struct event_stream *feed, struct buf *out); // of the next stream
	void (*take)(struct event_stream *feed, const struct sse_event *event);
	uint64_t last;
	bool placed; // `last` is valid
	bool over;   // set by `take`: no more events are needed
};

// Returns when it is over, or when the daemon refuses or stays unreachable.
fallible event_stream_follow(struct event_stream *feed);
