// An exchange without a connection: the same routes and handlers, but the request comes from memory
// and the reply goes to callbacks. Used to carry requests inside something else: a WebSocket, RPC,
// another API.
#pragma once

#include "http/server.h"

struct in_process;

// The request. in_process_new() copies everything except `principal`, `app` and the target of
// `arg`.
struct in_process_ask {
	struct loop *loop;
	http_serve_fn *serve; // finds the route and calls its handler: gateway_inner()
	void *app;
	const void *principal; // that of the outer exchange
	struct str peer;       // the client's address, for the log; empty: "inner"
	struct str trace;      // empty: the new request's own id
	struct str method;
	struct str target;		  // path and query: "/v1/sandboxes/ID/api/execute?x=1"
	const struct http1_field *fields; // in addition to Content-Type and Content-Length
	size_t field_count;
	const char *type; // of the body; NULL: application/json
	struct str body;  // at == NULL: none
	size_t body_max;  // limit of http_body(x, 0, …); 0: 1 MiB
};

struct in_process_head {
	int status;
	struct str type;   // "text/event-stream"; empty: none
	struct str fields; // set by the handler: "Name: value\r\n"…
	bool is_whole;	   // at most one call of bytes() follows
	bool is_sized;	   // `length` bytes follow
	uint64_t length;
};

// All callbacks run in the exchange's task and may wait, which slows only this handler. An error
// from a callback ends the exchange like a lost client.
struct in_process_calls {
	// Reads the request's body in pieces, *out = 0 at its end; NULL: ask.body is all of it.
	fallible (*read)(void *arg, void *room, size_t size, size_t *out);
	fallible (*head)(void *arg,
			 const struct in_process_head *head); // once, before the first bytes
	fallible (*bytes)(void *arg, struct str bytes);
	// The last call, exactly once in any case; it runs with cancellation masked. !is_whole: the
	// reply was cut, or there was none (then head() was not called).
	void (*end)(void *arg, bool is_whole);
};

struct in_process *in_process_new(const struct in_process_ask *ask,
				  const struct in_process_calls *calls, void *arg);
// Both free it after end().
void in_process_run(struct in_process *inner);				// in the current task
void in_process_start(struct in_process *inner, const char *task_name); // in a task of its own
void in_process_discard(struct in_process *inner); // never run; end() is not called
// Cancels the exchange, as if the client had closed its connection. A handler that waits for
// something else is cancelled, one that writes gets CANCELLED client_gone; end() is still called.
// Only before end().
void in_process_cancel(struct in_process *inner);
