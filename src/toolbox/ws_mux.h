// One WebSocket that carries requests, and the calls under way on it: each request is served like
// any other, and its reply goes out as frames. Closing the socket cancels them.
#pragma once

#include "codec/json.h"
#include "http/http.h"
#include "http/wsock.h"

#define WS_MUX_AT_ONCE 64		 // calls that run
#define WS_MUX_WAITING_MAX 1024		 // and that wait for one of them to end
#define WS_MUX_WAITING_BYTES (64u << 20) // their bodies

struct ws_mux;

// `prefix` goes in front of every path: "/v1/sandboxes/ID".
struct ws_mux *ws_mux_new(struct http *x, struct wsock *ws, struct str prefix);
// Nobody listens any more: what runs is cancelled, what waits is forgotten. Calls that are not over
// yet keep what they need.
void ws_mux_end(struct ws_mux *line);

struct ws_mux_request {
	struct str id, method, path;
	const struct json *headers; // an object, or NULL
	struct str body;	    // JSON as it was sent; at == NULL: none
};
// Serves it now or when its turn comes. INVALID bad_request: its id is in use; EXHAUSTED
// too_many_requests, too_much_at_once.
fallible ws_mux_ask(struct ws_mux *line, const struct ws_mux_request *request);
void ws_mux_cancel(struct ws_mux *line, struct str id); // harmless when there is none
// {"type":"error"}; `id` at == NULL: none is known.
fallible ws_mux_error(struct ws_mux *line, struct str id, const char *code, const char *message,
		      int status);
