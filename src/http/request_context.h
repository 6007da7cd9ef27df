// The memory of a connection while it serves a request: exchange, arena, buffers. An idle
// connection has none, so thousands of them cost little; a few contexts are kept for reuse.
#pragma once

#include "http/channel.h"
#include "http/http.h"

struct request_context {
	struct http x;
	struct http_buffers buffers;
	struct link link;
};

void request_context_open(struct http_terms *terms);
void request_context_attach(struct http_conn *conn);  // conn has a context now
void request_context_release(struct http_conn *conn); // no effect without one
void request_context_close(struct http_terms *terms);
