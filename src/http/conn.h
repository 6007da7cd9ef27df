// The life of one connection, from its first byte to its close. Runs in a task of its own.
#pragma once

#include "http/desk.h"

#define CONN_FIRST_MS 300 // for the first request of one who came as the server was leaving

// Told each time the connection begins (true) or ceases (false) to wait for a request.
typedef void conn_idle_fn(struct http_conn *conn, bool is_idle);

struct conn_calls {
	void (*serve)(struct http *x);
	void (*refuse)(struct http *x, struct err *err);
	conn_idle_fn *idle;
	void (*count)(struct http *x); // a request has come, before it is served
};

// Serves requests until either side has had enough, then closes the stream.
void conn_run(struct http_conn *conn, const struct conn_calls *calls);
