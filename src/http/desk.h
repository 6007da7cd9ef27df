// What a connection works at while it is served: the exchange, its arena, its papers. An idle
// connection has none, so thousands of them cost little; a few spare desks wait for the next.
#pragma once

#include "http/channel.h"
#include "http/http.h"

struct desk {
	struct http x;
	struct http_papers papers;
	struct link link;
};

void desk_open(struct http_terms *terms);
void desk_sit(struct http_conn *conn);	 // conn has a desk now
void desk_leave(struct http_conn *conn); // harmless without one
void desk_close(struct http_terms *terms);
