// Listeners, connections, limits, drain. Each connection is a task that reads a request, has it
// served, and reads the next: pipelined requests are answered in order, one at a time.
#pragma once

#include "http/http.h"
#include "loop/loop.h"

struct http_limits {
	uint32_t conns_max;	 // of all peers
	uint32_t conns_per_peer; // of one address; 0: no limit (loopback is shared by all local
				 // users)
	uint32_t head_ms, idle_ms, silence_ms; // 10 s, 75 s, 30 s
	size_t body_max; // 1 MiB for routes that do not stream: http_body(x, 0, …)
};
#define HTTP_LIMITS_DEFAULT                                                                        \
	((struct http_limits){.conns_max = 4096,                                                   \
			      .conns_per_peer = 0,                                                 \
			      .head_ms = 10000,                                                    \
			      .idle_ms = 75000,                                                    \
			      .silence_ms = 30000,                                                 \
			      .body_max = 1 << 20})

// Serves one request whose head has been read: authenticates, finds the route, calls the handler,
// and answers every error. It must reply exactly once. Runs in the connection's task.
typedef void http_serve_fn(struct http *x);
// Answers a head that could not be parsed (400, 408, 431): without route and authentication.
typedef void http_refuse_fn(struct http *x, struct err *err);

struct http_server;
fallible http_server_open(struct loop *loop, const struct http_limits *limits, http_serve_fn *serve,
			  http_refuse_fn *refuse, void *app, struct http_server **out);
// Accepts on a listening socket, and owns it unless it fails. Keeps spare fds and pauses accepting
// when fds run out.
fallible http_server_listen(struct http_server *server, int fd);
// Called for each accepted connection from then on; true: `divert` has taken it. Does not wait.
struct sockaddr_storage;
typedef bool http_divert_fn(void *arg, int fd, const struct sockaddr_storage *from);
void http_server_divert(struct http_server *server, http_divert_fn *divert, void *arg);
// Takes ownership of a connection that was accepted elsewhere, `from` that address; serves or
// refuses it.
void http_server_take(struct http_server *server, int fd, const struct sockaddr_storage *from);
// Stops accepting; idle connections are closed, busy ones finish their reply with "Connection:
// close". WebSockets are closed with 1001.
void http_server_drain(struct http_server *server);
bool http_server_idle(const struct http_server *server); // no connections
bool http_server_feeds_only(
	const struct http_server *server); // no connections except streams that clients resume
// Cancels all requests; their memory is freed as the loop runs on.
void http_server_free(struct http_server *server);

struct http_stats {
	uint64_t requests, conns, refused;
	uint32_t open;
};
struct http_stats http_server_stats(const struct http_server *server);
uint32_t http_server_room(const struct http_server *server); // limit of connections
// Replaces the limits. Open connections stay.
void http_server_bound(struct http_server *server, uint32_t conns_max, uint32_t conns_per_peer);
