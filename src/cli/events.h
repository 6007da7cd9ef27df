// A stream of events across restarts of the daemon: each new stream starts after the last event
// taken. And pages of the same rows.
#pragma once

#include "cli/remote.h"
#include "codec/sse.h"

struct event_stream {
	struct call *call;
	void (*path)(struct event_stream *feed, struct buf *out); // of the next stream or page
	void (*take)(struct event_stream *feed, const struct sse_event *event);
	void (*show)(struct event_stream *feed, const struct json *row, struct str text);
	uint64_t last;
	bool placed; // `last` is valid
	bool paged;  // `path` is asked for a page
	bool over;   // set by `take`: no more events are needed
};

// Returns when it is over, or when the daemon refuses or stays unreachable.
fallible event_stream_follow(struct event_stream *feed);
// Shows all rows that there are. *out_page, if given, is the last page, owned by the caller.
fallible event_stream_pages(struct event_stream *feed, struct json **out_page);
// For `take`: shows the event as a row.
void event_stream_show(struct event_stream *feed, const struct sse_event *event);
// For `show`: a line of JSON.
void event_stream_json(struct event_stream *feed, const struct json *row, struct str text);
