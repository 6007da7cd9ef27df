// A stream of events, followed over restarts of the daemon: the id of the last event that was taken
// is where the next stream begins.
#pragma once

#include "cli/call.h"
#include "wire/sse.h"

struct feed {
	struct call *call;
	void (*path)(struct feed *feed, struct buf *out); // of the next stream
	void (*take)(struct feed *feed, const struct sse_event *event);
	uint64_t last;
	bool placed; // `last` says where to go on
	bool over;   // set by `take`: it has all it wanted
};

// Returns when it is over, or when the daemon refuses or stays away.
fallible feed_follow(struct feed *feed);
