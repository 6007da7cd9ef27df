// Upgrades a server connection from HTTP to WebSocket. The connection carries no HTTP afterwards.
#pragma once

#include "http/http.h"
#include "http/wsock.h"

// The subprotocol that is agreed on with a client which offers it: browsers do.
#define UPGRADE_PROTOCOL "cove.v1"

// Runs in the connection's task, as its receiver, until the dialogue is over; its error is that of
// the exchange. It need not close the socket: upgrade_run() does, with WS_NORMAL.
typedef fallible upgrade_fn(struct http *x, struct wsock *ws, void *arg);

// Checks that the request is an upgrade. NOT_FOUND no_route: a plain request, and this path serves
// none. UPGRADE bad_version: not version 13. INVALID bad_upgrade: malformed.
fallible upgrade_check(struct http *x);
// Checks, answers 101 and runs `talk`. `options` may be NULL. A server that drains ends it with
// WS_GOING_AWAY.
fallible upgrade_run(struct http *x, const struct wsock_options *options, upgrade_fn *talk,
		     void *arg);
