// From HTTP to WebSocket on a connection of the server. The connection carries no HTTP afterwards.
#pragma once

#include "http/http.h"
#include "http/wsock.h"

// Runs in the connection's task, as its receiver. Returns when the talk is over; an error is that
// of the exchange. It need not close the socket: that is done behind it, with WS_NORMAL.
typedef fallible upgrade_fn(struct http *x, struct wsock *ws, void *arg);

// Is it the request for an upgrade? NOT_FOUND no_route: a plain request, and there is nothing for
// it here. UPGRADE bad_version: not version 13. INVALID bad_upgrade: malformed.
fallible upgrade_check(struct http *x);
// Answers 101 and has the socket talked over. `options` may be NULL. Checks first. A server that
// drains ends it with WS_GOING_AWAY.
fallible upgrade_run(struct http *x, const struct wsock_options *options, upgrade_fn *talk,
		     void *arg);
