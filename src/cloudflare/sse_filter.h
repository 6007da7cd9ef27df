// Rewrites a stream of server-sent events: adds an `event:` line before each `data:` line, or drops
// events of one type. The input arrives in pieces, cut anywhere.
#pragma once

#include "base/buf.h"

#define SSE_FILTER_START 64 // bytes of a line that determine its type

struct sse_filter {
	bool names;	  // add event: lines
	const char *drop; // type to drop; NULL: none
	char start[SSE_FILTER_START];
	size_t len;
	char id[SSE_FILTER_START]; // an `id:` line, held back until the next line's fate is known
	size_t id_len;
	bool decided, dropped, gap;
};

void sse_filter_add(struct sse_filter *filter, struct str bytes, struct buf *out);
void sse_filter_end(struct sse_filter *filter, struct buf *out); // flushes an incomplete last line
