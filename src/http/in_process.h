// An exchange without a connection: the same routes and handlers, but the request comes from memory
// and the reply goes to callbacks. Used by whoever carries requests inside of something else: a
// WebSocket, a batch, another API.
#pragma once

#include "http/server.h"

struct in_process;

// What is asked. All of it is copied by in_process_new(), but `guest`, `house` and what `arg`
// means.
struct in_process_ask {
	struct loop *loop;
	http_serve_fn *serve; // finds the route and calls its handler: gateway_inner()
	void *app;
	const void *principal; // who asks: that of the outer exchange
	struct str peer;       // address of the client, for the log; empty: "inner"
	struct str trace;      // empty: the new request's own id
	struct str method;
	struct str target;		  // path and query: "/v1/sandboxes/ID/api/execute?x=1"
	const struct http1_field *fields; // more than Content-Type and Content-Length
	size_t field_count;
	const char *type; // of the body; NULL: application/json
	struct str body;  // at == NULL: none
	size_t body_max;  // what http_body(x, 0, …) takes; 0: 1 MiB
};

struct in_process_head {
	int status;
	struct str type;   // "text/event-stream"; empty: none
	struct str fields; // what the handler set: "Name: value\r\n"…
	bool is_whole;	   // one call of bytes() follows, or none
	bool is_sized;	   // `length` bytes follow
	uint64_t length;
};

// All of them run in the exchange's task and may wait, which slows the handler and nobody else. An
// error from one of them ends the exchange as a lost client would.
struct in_process_calls {
	// The request's body in pieces, *out = 0 at its end; NULL: ask.body is all of it.
	fallible (*read)(void *arg, void *room, size_t size, size_t *out);
	fallible (*head)(void *arg,
			 const struct in_process_head *head); // once, before the first bytes
	fallible (*bytes)(void *arg, struct str bytes);
	// The last call, exactly once whatever happened; a cancellation is no longer felt in it.
	// !is_whole: the reply was cut, or there was none (then head() was not called).
	void (*end)(void *arg, bool is_whole);
};

struct in_process *in_process_new(const struct in_process_ask *ask,
				  const struct in_process_calls *calls, void *arg);
// Each frees it after end().
void in_process_run(struct in_process *inner);				// in the current task
void in_process_start(struct in_process *inner, const char *task_name); // in a task of its own
void in_process_discard(struct in_process *inner); // it was never run, and end() is not called
// Nobody awaits the reply any more: as if the client had closed its connection. A handler that
// waits for something else is cancelled, one that writes gets CANCELLED client_gone; end() is still
// called. Only before end().
void in_process_cancel(struct in_process *inner);

// The plain case: serves it in the current task and collects the reply's body in `out`, whose
// ceiling is the limit (TOO_LARGE reply_too_large past it). BAD_PEER cut_body. `out_type`: into
// room of the caller, may be NULL.
fallible in_process_fetch(const struct in_process_ask *ask, struct buf *out, int *out_status,
			  char out_type[64]);
