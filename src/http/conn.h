// The life of one connection, from its first byte to its close. Runs in a task of its own.
#pragma once

#include "http/request_context.h"

#define CONN_FIRST_MS 300 // for the first request of one who came as the server was leaving

enum conn_phase {
	CONN_WAITING, // for the first byte of a request
	CONN_READING, // the head of a request, which is incomplete
	CONN_SERVING,
	CONN_ENDING, // answered; what the peer still sends is read into nothing
};

// Told each time the connection enters a phase.
typedef void conn_phase_fn(struct http_conn *conn, enum conn_phase phase);

struct conn_calls {
	void (*serve)(struct http *x);
	void (*refuse)(struct http *x, struct err *err);
	conn_phase_fn *phase;
};

// Serves requests until either side has had enough, then closes the stream.
void conn_run(struct http_conn *conn, const struct conn_calls *calls);
