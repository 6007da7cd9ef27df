// Server-sent events on their way through: with an `event:` line put before each `data:` line, or
// without those of one type. Bytes in pieces, cut anywhere.
#pragma once

#include "base/buf.h"

#define SSE_FILTER_START 64 // bytes of a line that tell its type

struct sse_filter {
	bool names;	  // put the type before it
	const char *drop; // a type; NULL: none
	char start[SSE_FILTER_START];
	size_t len;
	char id[SSE_FILTER_START]; // an `id:` line that waits for what it belongs to
	size_t id_len;
	bool decided, dropped, gap;
};

void sse_filter_add(struct sse_filter *filter, struct str bytes, struct buf *out);
void sse_filter_end(struct sse_filter *filter, struct buf *out); // what is left of a last line
