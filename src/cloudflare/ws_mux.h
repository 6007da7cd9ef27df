// One WebSocket that carries requests, and its running calls. Each request is served like any
// other; its reply is sent as frames. Closing the socket cancels the calls.
#pragma once

#include "codec/json.h"
#include "http/http.h"
#include "http/wsock.h"

#define WS_MUX_AT_ONCE 64		 // running calls
#define WS_MUX_WAITING_MAX 1024		 // calls that wait for a running one to end
#define WS_MUX_WAITING_BYTES (64u << 20) // bodies of waiting calls

struct ws_mux;

// `prefix` goes in front of every path: "/v1/sandboxes/ID".
struct ws_mux *ws_mux_new(struct http *x, struct wsock *ws, struct str prefix);
// The socket has closed: running calls are cancelled, waiting ones are dropped. Calls that have not
// ended yet keep their own reference.
void ws_mux_end(struct ws_mux *mux);

struct ws_mux_request {
	struct str id, method, path;
	const struct json *headers; // an object, or NULL
	struct str body;	    // JSON as it was sent; at == NULL: none
};
// Serves it now or when its turn comes. INVALID bad_request: its id is in use; EXHAUSTED
// too_many_requests, too_much_at_once.
fallible ws_mux_ask(struct ws_mux *mux, const struct ws_mux_request *request);
void ws_mux_cancel(struct ws_mux *mux, struct str id); // no effect when there is none
// Sends {"type":"error"}; `id` at == NULL: unknown.
fallible ws_mux_error(struct ws_mux *mux, struct str id, const char *code, const char *message,
		      int status);
