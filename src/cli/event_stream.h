// A stream of events, followed over restarts of the daemon: the id of the last event that was taken
// is where the next stream begins.
#pragma once

#include "cli/call.h"
#include "codec/sse.h"

struct event_stream {
	struct call *call;
	void (*path)(struct event_stream *feed, struct buf *out); // of the next stream
	void (*take)(struct event_stream *feed, const struct sse_event *event);
	uint64_t last;
	bool placed; // `last` says where to go on
	bool over;   // set by `take`: it has all it wanted
};

// Returns when it is over, or when the daemon refuses or stays away.
fallible event_stream_follow(struct event_stream *feed);
