// What a connection works at while it is served: the exchange, its arena, its papers. An idle
// connection has none, so thousands of them cost little; a few spare desks wait for the next.
#pragma once

#include "http/channel.h"
#include "http/http.h"

struct request_context {
	struct http x;
	struct http_buffers buffers;
	struct link link;
};

void request_context_open(struct http_terms *terms);
void request_context_sit(struct http_conn *conn);   // conn has a desk now
void request_context_leave(struct http_conn *conn); // harmless without one
void request_context_close(struct http_terms *terms);
