// Admission of connections, counted in all and by peer. At the limit, the connection whose head has
// been incomplete longest is closed, then the longest idle one; when all are busy the new one gets
// 503.
//
// A connection with an incomplete head, or whose request is answered and whose body is being
// discarded, is not authenticated. One peer may have at most a quarter of all connections in that
// state: beyond that its own oldest one is closed silently.
//
// Fds are shared with the rest of the process. A few are kept in reserve. When accept() fails for
// lack of fds, the reserve is released so that running work can go on, and accepting pauses until
// the reserve is refilled.
//
// syscalls: accept4 accept sendto recvfrom close fcntl getsockopt prlimit64 getrlimit
#include "http/server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/weak.h"
#include "http/conn.h"
#include "http/wsock.h"

#define LISTENERS_MAX 8
#define ACCEPTS_A_TURN 32
#define RESERVE 16
#define PEER_HEADS_MIN 16 // incomplete heads that each peer may have
#define EVICT_TRIES 64
#define PAUSE_MS 100

struct listener {
	struct watch watch;
	struct http_server *server;
};

// Connections of one peer: an IPv4 address, an IPv6 /64 (a host has a whole one), or a uid on a
// Unix socket.
struct peer {
	uint32_t open;
	uint32_t head_count;
	struct link heads; // connections without a complete head, oldest first
	char key[9];
	size_t key_len;
};

struct client {
	struct http_conn conn;
	struct http_server *server;
	struct task *task;
	struct peer *peer; // NULL: local, not counted
	struct link all, idle;
	struct link head, peer_head; // while its head is incomplete or its request is answered
};

struct http_server {
	struct http_terms terms;
	struct http_limits limits;
	struct conn_calls calls;
	http_divert_fn *divert; // NULL: none
	void *divert_arg;
	struct listener listeners[LISTENERS_MAX];
	int listener_count;
	struct link clients, idle, heads; // idle, heads: longest first
	struct map *peers;
	struct timer resume;
	int reserve[RESERVE];
	bool paused, freed;
	struct http_stats stats;
};

static bool fill_reserve(struct http_server *server)
{
	for (int i = 0; i < RESERVE; i++) {
		if (server->reserve[i] < 0)
			server->reserve[i] = fcntl(server->listeners[0].watch.fd, F_DUPFD_CLOEXEC,
						   0);
		if (server->reserve[i] < 0)
			return false;
	}
	return true;
}

static void server_drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void drop_reserve(struct http_server *server)
{
	for (int i = 0; i < RESERVE; i++)
		server_drop(&server->reserve[i]);
}

static void pause_accepting(struct http_server *server)
{
	struct loop *loop = server->terms.loop;

	drop_reserve(server);
	for (int i = 0; i < server->listener_count; i++)
		loop_unwatch(loop, &server->listeners[i].watch);
	server->paused = true;
	loop_set_timer(loop, &server->resume, loop_now(loop) + PAUSE_MS);
}

static void server_on_resume(struct timer *timer)
{
	struct http_server *server = link_of(timer, struct http_server, resume);
	struct loop *loop = server->terms.loop;

	if (!fill_reserve(server)) {
		drop_reserve(server);
		loop_set_timer(loop, timer, loop_now(loop) + PAUSE_MS);
		return;
	}
	server->paused = false;
	for (int i = 0; i < server->listener_count; i++) {
		auto_err err = loop_watch(loop, &server->listeners[i].watch, EPOLLIN);

		if (err) {
			pause_accepting(server);
			return;
		}
	}
}

// SO_PEERCRED: the uid of the process that called connect(). -1: not a Unix socket.
static int64_t peer_uid(int fd, const struct sockaddr_storage *from)
{
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);

	if (from->ss_family != AF_UNIX || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -1;
	return (int64_t)cred.uid;
}

static struct peer *server_peer_of(struct http_server *server, const struct sockaddr_storage *from,
				   int64_t uid)
{
	struct peer seen = {0}, *peer;

	seen.key[0] = (char)from->ss_family;
	if (from->ss_family == AF_INET) {
		seen.key_len = 5;
		memcpy(seen.key + 1, &((const struct sockaddr_in *)from)->sin_addr, 4);
	} else if (from->ss_family == AF_INET6) {
		seen.key_len = 9;
		memcpy(seen.key + 1, &((const struct sockaddr_in6 *)from)->sin6_addr, 8);
	} else if (uid >= 0) {
		seen.key_len = 9;
		memcpy(seen.key + 1, &uid, sizeof(uid));
	} else {
		return NULL;
	}
	peer = map_get(server->peers, (struct str){seen.key, seen.key_len});
	if (peer)
		return peer;
	peer = mem_new_of(struct peer);
	*peer = seen;
	link_init(&peer->heads);
	map_put(server->peers, (struct str){peer->key, peer->key_len}, peer);
	return peer;
}

static void peer_leave(struct http_server *server, struct peer *peer)
{
	if (!peer || (peer->open > 0 && --peer->open > 0))
		return;
	map_take(server->peers, (struct str){peer->key, peer->key_len});
	free(peer);
}

static void write_peer(char *out, size_t size, const struct sockaddr_storage *from)
{
	const void *at = from->ss_family == AF_INET
				 ? (const void *)&((const struct sockaddr_in *)from)->sin_addr
				 : (const void *)&((const struct sockaddr_in6 *)from)->sin6_addr;

	if ((from->ss_family != AF_INET && from->ss_family != AF_INET6) ||
	    !inet_ntop(from->ss_family, at, out, (socklen_t)size))
		memcpy(out, "local", 6);
}

static void server_destroy(struct http_server *server)
{
	request_context_close(&server->terms);
	map_free(server->peers);
	free(server);
}

static void client_begin_head(struct client *client)
{
	link_add(&client->server->heads, &client->head);
	if (!client->peer)
		return;
	link_add(&client->peer->heads, &client->peer_head);
	client->peer->head_count++;
}

static void client_end_head(struct client *client)
{
	if (link_empty(&client->head))
		return;
	link_drop(&client->head);
	if (!client->peer)
		return;
	link_drop(&client->peer_head);
	client->peer->head_count--;
}

// Whether input is pending: then a request may be arriving, and is served first.
static bool has_news(const struct client *client)
{
	char c;

	return recv(client->conn.stream.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void client_run(void *arg)
{
	struct client *client = arg;
	struct http_server *server = client->server;

	conn_run(&client->conn, &server->calls);
	link_drop(&client->all);
	link_drop(&client->idle);
	client_end_head(client);
	peer_leave(server, client->peer);
	server->stats.open--;
	free(client);
	if (server->freed && server->stats.open == 0)
		server_destroy(server);
}

static void on_phase(struct http_conn *conn, enum conn_phase phase)
{
	struct client *client = link_of(conn, struct client, conn);

	link_drop(&client->idle);
	if (phase == CONN_WAITING)
		link_add(&client->server->idle, &client->idle);
	client->server->stats.requests += phase == CONN_SERVING;
	// A connection that never had a request counts from its beginning.
	if (phase == CONN_SERVING || (phase == CONN_WAITING && conn->served_one))
		client_end_head(client);
	else if (link_empty(&client->head))
		client_begin_head(client);
}

static bool evict_idle(struct http_server *server, bool new_ones)
{
	list_each (at, &server->idle) {
		struct client *client = link_of(at, struct client, idle);

		if (has_news(client) || (!new_ones && !client->conn.served_one))
			continue;
		link_drop(&client->idle);
		task_cancel(client->task);
		return true;
	}
	return false;
}

// Closes the oldest of these connections, except those with unread input: their head may be
// complete.
static bool evict_head(struct link *heads, size_t member)
{
	int tried = 0;

	list_each (at, heads) {
		struct client *client = (struct client *)((char *)at - member);

		if (weak(HEADS) || tried++ == EVICT_TRIES)
			return false;
		if (has_news(client))
			continue;
		link_drop(&client->idle);
		client_end_head(client);
		task_cancel(client->task); // it waits for more of the head
		return true;
	}
	return false;
}

static void turn_away(struct http_server *server, int fd)
{
	// No Content-Length: the close ends the body.
	static const char words[] =
		"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
		"Retry-After: 1\r\nConnection: close\r\n\r\n"
		"{\"code\":\"unavailable\",\"message\":\"too many connections\",\"context\":{},"
		"\"httpStatus\":503,\"reason\":\"too_many_connections\",\"retryable\":true,"
		"\"retryAfter\":1}";

	server->stats.refused++;
	if (send(fd, words, sizeof(words) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		shutdown(fd, SHUT_WR);
	close(fd);
}

static void server_admit(struct http_server *server, int fd, const struct sockaddr_storage *from)
{
	int64_t uid = peer_uid(fd, from);
	struct peer *peer = server_peer_of(server, from, uid);
	struct client *client;
	auto_err err = NULL;

	if ((peer && server->limits.conns_per_peer &&
	     peer->open >= server->limits.conns_per_peer) ||
	    (!weak(CONNS) && server->stats.open >= server->limits.conns_max &&
	     !evict_head(&server->heads, offsetof(struct client, head)) &&
	     !evict_idle(server, true))) {
		if (peer && peer->open == 0)
			peer_leave(server, peer);
		turn_away(server, fd);
		return;
	}
	client = mem_new_of(struct client);
	client->server = server;
	client->conn.terms = &server->terms;
	err = stream_open(&client->conn.stream, server->terms.loop, fd);
	if (err) {
		if (peer && peer->open == 0)
			peer_leave(server, peer);
		free(client);
		return;
	}
	write_peer(client->conn.peer, sizeof(client->conn.peer), from);
	client->conn.uid = uid;
	client->peer = peer;
	if (peer)
		peer->open++;
	link_add(&server->clients, &client->all);
	link_init(&client->head);
	link_init(&client->peer_head);
	client_begin_head(client);
	if (peer && peer->head_count > PEER_HEADS_MIN &&
	    peer->head_count > server->limits.conns_max / 4)
		evict_head(&peer->heads, offsetof(struct client, peer_head));
	server->stats.open++;
	server->stats.conns++;
	client->task = task_start(server->terms.loop, "http", client_run, client);
}

void http_server_take(struct http_server *server, int fd, const struct sockaddr_storage *from)
{
	server_admit(server, fd, from); // also during a drain: a connected client is served
}

static void server_on_listener(struct watch *watch, uint32_t events)
{
	struct http_server *server = link_of(watch, struct listener, watch)->server;

	(void)events;
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		struct sockaddr_storage from = {0};
		socklen_t len = sizeof(from);
		int fd = accept4(watch->fd, (struct sockaddr *)&from, &len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			if (!server->divert || !server->divert(server->divert_arg, fd, &from))
				server_admit(server, fd, &from);
			continue;
		}
		if (errno == EAGAIN)
			return;
		// Only a connection that died in the queue is skipped. Any other error, EMFILE and
		// ENFILE above all, would repeat at once: accepting pauses.
		if (errno != ECONNABORTED && errno != EINTR && errno != EPROTO) {
			pause_accepting(server);
			return;
		}
	}
}

// At most half of the fds are for connections: requests need fds too.
void http_server_bound(struct http_server *server, uint32_t conns_max, uint32_t conns_per_peer)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY &&
	    conns_max > files.rlim_cur / 2)
		conns_max = (uint32_t)(files.rlim_cur / 2);
	server->limits.conns_max = conns_max;
	server->limits.conns_per_peer = conns_per_peer;
}

fallible http_server_open(struct loop *loop, const struct http_limits *limits, http_serve_fn *serve,
			  http_refuse_fn *refuse, void *app, struct http_server **out)
{
	struct http_server *server = mem_new_of(struct http_server);

	server->limits = *limits;
	http_server_bound(server, limits->conns_max, limits->conns_per_peer);
	server->terms.loop = loop;
	server->terms.head_ms = limits->head_ms;
	server->terms.idle_ms = limits->idle_ms;
	server->terms.silence_ms = limits->silence_ms;
	server->terms.body_max = limits->body_max;
	server->terms.app = app;
	server->calls = (struct conn_calls){serve, refuse, on_phase};
	server->peers = map_new();
	server->resume.due = server_on_resume;
	link_init(&server->clients);
	link_init(&server->idle);
	link_init(&server->heads);
	link_init(&server->terms.sockets);
	link_init(&server->terms.spare);
	for (int i = 0; i < RESERVE; i++)
		server->reserve[i] = -1;
	*out = server;
	return OK;
}

void http_server_divert(struct http_server *server, http_divert_fn *divert, void *arg)
{
	server->divert = divert;
	server->divert_arg = arg;
}

fallible http_server_listen(struct http_server *server, int fd)
{
	struct listener *listener = &server->listeners[server->listener_count];

	assert(server->listener_count < LISTENERS_MAX);
	if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) != 0)
		return err_sys(errno, "make a listener non-blocking");
	*listener = (struct listener){.watch = {.fd = fd, .ready = server_on_listener},
				      .server = server};
	if (!server->paused)
		TRY(loop_watch(server->terms.loop, &listener->watch, EPOLLIN),
		    "accept connections");
	server->listener_count++;
	if (!server->paused && !fill_reserve(server))
		pause_accepting(server);
	return OK;
}

static void on_farewell(struct timer *timer)
{
	while (evict_idle(link_of(timer, struct http_server, resume), true))
		;
}

void http_server_drain(struct http_server *server)
{
	server->terms.draining = true;
	loop_drop_timer(server->terms.loop, &server->resume);
	for (int i = 0; i < server->listener_count; i++) {
		loop_unwatch(server->terms.loop, &server->listeners[i].watch);
		server_drop(&server->listeners[i].watch.fd);
	}
	server->listener_count = 0;
	drop_reserve(server);
	wsock_shut_all(&server->terms.sockets, WS_GOING_AWAY, "the server is going away");
	// A client that has just connected may be about to send its first request, and would not
	// retry as one on a reused connection would: keep it.
	while (evict_idle(server, false))
		;
	server->resume.due = on_farewell;
	loop_set_timer(server->terms.loop, &server->resume,
		       loop_now(server->terms.loop) + CONN_FIRST_MS);
}

bool http_server_idle(const struct http_server *server)
{
	return server->stats.open == 0;
}

bool http_server_feeds_only(const struct http_server *server)
{
	list_each (at, &server->clients) {
		const struct request_context *context =
			link_of(at, struct client, all)->conn.context;

		if (!context || !context->x.feed)
			return false;
	}
	return true;
}

void http_server_free(struct http_server *server)
{
	if (!server)
		return;
	http_server_drain(server);
	loop_drop_timer(server->terms.loop, &server->resume);
	server->freed = true;
	if (server->stats.open == 0) {
		server_destroy(server);
		return;
	}
	list_each (at, &server->clients)
		task_cancel(link_of(at, struct client, all)->task);
}

struct http_stats http_server_stats(const struct http_server *server)
{
	return server->stats;
}

uint32_t http_server_room(const struct http_server *server)
{
	return server->limits.conns_max;
}
