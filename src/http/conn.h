// The life of one connection, from its first byte to its close. Runs in its own task.
#pragma once

#include "http/channel.h"
#include "http/http.h"

#define CONN_FIRST_MS 300 // for the first request of a client that connected during a drain

enum conn_phase {
	CONN_WAITING, // for the first byte of a request
	CONN_READING, // an incomplete head
	CONN_SERVING,
	CONN_ENDING, // answered; further input is read and discarded
};

// The memory of a connection while it serves a request: exchange, arena, buffers. An idle
// connection has none, so thousands of them cost little; a few contexts are kept for reuse.
struct request_context {
	struct http x;
	struct http_buffers buffers;
	struct link link;
};
void request_context_close(struct http_terms *terms); // frees those that are kept

// Called whenever the connection enters a phase.
typedef void conn_phase_fn(struct http_conn *conn, enum conn_phase phase);

struct conn_calls {
	void (*serve)(struct http *x);
	void (*refuse)(struct http *x, struct err *err);
	conn_phase_fn *phase;
};

// Serves requests until either side closes, then closes the stream.
void conn_run(struct http_conn *conn, const struct conn_calls *calls);
