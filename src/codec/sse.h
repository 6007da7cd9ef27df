// Server-sent events: an incremental parser and a writer. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct sse_event {
	struct str event; // its name; empty: none
	struct str id;	  // the last id given, by this event or an earlier one
	struct str data;  // lines joined by LF
};

// An incremental parser. Zeroed except its limit: SSE_READER(max).
struct sse_reader {
	struct buf line, event, id, data;
	bool has_data, told, after_cr, begun;
};
#define SSE_READER(max)                                                                            \
	((struct sse_reader){BUF_INIT(max), BUF_INIT(max), BUF_INIT(max), BUF_INIT(max), false,    \
			     false, false, false})
void sse_done(struct sse_reader *reader);

enum sse_verdict { SSE_MORE, SSE_EVENT, SSE_TOO_LARGE };
// Consumes from the front of *in up to the end of an event; its slices live until the next call.
// MORE: everything was consumed. A last event without an empty line after it is dropped.
enum sse_verdict sse_read(struct sse_reader *reader, struct str *in, struct sse_event *out);

// Writes one event, with the empty line after it. `event` and `id` may be empty; line ends in them
// are removed, those in `data` begin another data line.
void sse_put(struct buf *out, struct str event, struct str id, struct str data);
