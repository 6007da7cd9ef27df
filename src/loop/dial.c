// Listening sockets, and connections from a task: TCP, several addresses at once (RFC 8305), Unix
// sockets. Every connect has a deadline; failed attempts close their sockets. Only numeric
// addresses are accepted.
//
// syscalls: socket bind listen connect setsockopt getsockopt getsockname close
#include "loop/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"

#define BACKLOG 4096

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

// A numeric host, without brackets.
static bool parse_host(struct str host, uint16_t port, union address *out, socklen_t *out_len)
{
	char text[INET6_ADDRSTRLEN];

	if (host.len == 0 || host.len >= sizeof(text) || memchr(host.at, 0, host.len))
		return false;
	memcpy(text, host.at, host.len);
	text[host.len] = 0;
	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, &out->in.sin_addr) == 1) {
		out->in.sin_family = AF_INET;
		out->in.sin_port = htons(port);
		*out_len = sizeof(out->in);
		return true;
	}
	if (inet_pton(AF_INET6, text, &out->in6.sin6_addr) == 1) {
		out->in6.sin6_family = AF_INET6;
		out->in6.sin6_port = htons(port);
		*out_len = sizeof(out->in6);
		return true;
	}
	return false;
}

// "host:port" or "[host]:port".
static bool parse_address(struct str text, union address *out, socklen_t *out_len)
{
	const char *colon = text.len ? memrchr(text.at, ':', text.len) : NULL;
	struct str host;
	uint64_t port;

	if (!colon)
		return false;
	host = (struct str){text.at, (size_t)(colon - text.at)};
	if (!str_to_u64(str_skip(text, host.len + 1), 0, 65535, &port))
		return false;
	if (host.len >= 2 && host.at[0] == '[' && host.at[host.len - 1] == ']')
		host = (struct str){host.at + 1, host.len - 2};
	else if (memchr(host.at, ':', host.len))
		return false; // an IPv6 address needs brackets
	return parse_host(host, (uint16_t)port, out, out_len);
}

static fallible explain_bind(int errnum, struct str address)
{
	switch (errnum) {
	case EADDRINUSE:
		return err_hint(err_new(CONFLICT, "port_taken",
					"somebody already listens on " STR_FMT, STR_ARG(address)),
				"stop the other program or choose another port");
	case EADDRNOTAVAIL:
		return err_hint(err_new(INVALID, "bad_address",
					STR_FMT " is no address of this host", STR_ARG(address)),
				"127.0.0.1 and [::1] always are");
	case EACCES:
		return err_hint(err_new(FORBIDDEN, "port_forbidden",
					"no right to listen on " STR_FMT, STR_ARG(address)),
				"ports below 1024 are root's");
	default:
		return err_sys(errnum, "listen on " STR_FMT, STR_ARG(address));
	}
}

// Inherited by connections: a dead peer is detected after two minutes of silence. Not
// TCP_USER_TIMEOUT: that would also end a peer that does not read.
void dial_keep_alive(int fd)
{
	int on = 1, idle_s = 60, step_s = 15, steps = 4;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step_s, sizeof(step_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &steps, sizeof(steps));
}

fallible dial_listen(struct str address, int *out_fd, uint16_t *out_port)
{
	union address at;
	socklen_t len;
	auto_fd fd = -1;
	int on = 1;

	if (!parse_address(address, &at, &len))
		return err_hint(err_new(INVALID, "bad_address",
					"'" STR_FMT "' is no address to listen on",
					STR_ARG(address)),
				"write 127.0.0.1:8484 or [::1]:8484");
	fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(errno, "make a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	// Inherited by connections: a reply in two writes must not wait for the peer's delayed ack.
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	dial_keep_alive(fd);
	if (at.any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, &at.any, len) != 0 || listen(fd, BACKLOG) != 0)
		return explain_bind(errno, address);
	len = sizeof(at);
	if (getsockname(fd, &at.any, &len) != 0)
		return err_sys(errno, "ask for the port of " STR_FMT, STR_ARG(address));
	*out_port = ntohs(at.any.sa_family == AF_INET6 ? at.in6.sin6_port : at.in.sin_port);
	*out_fd = take_fd(&fd);
	return OK;
}

static fallible no_socket(int errnum)
{
	if (errnum != EMFILE && errnum != ENFILE)
		return err_sys(errnum, "make a socket");
	return err_hint(
		err_new(EXHAUSTED, "daemon_files", "this host is short of file descriptors"),
		"try again in a moment");
}

// 0, or the errno of the connection.
static fallible try_connect(const union address *to, socklen_t len, int type, int64_t deadline,
			    int *out_fd, int *out_errnum)
{
	auto_fd fd = socket(to->any.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int errnum = 0, on = 1;
	socklen_t size = sizeof(errnum);
	uint32_t events;

	if (fd < 0)
		return no_socket(errno);
	if (to->any.sa_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	for (;;) {
		if (connect(fd, &to->any, len) == 0) {
			errnum = 0;
			break;
		}
		errnum = errno;
		if (errnum == EAGAIN && to->any.sa_family == AF_UNIX) {
			// The backlog is full: epoll does not report when it has room.
			if (loop_now(task_loop()) >= deadline)
				break;
			TRY(task_sleep_until(loop_now(task_loop()) + 5));
			continue;
		}
		if (errnum != EINPROGRESS)
			break;
		TRY(task_wait_fd(fd, EPOLLOUT, deadline, &events));
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &size) != 0)
			errnum = errno;
		break;
	}
	*out_errnum = errnum;
	*out_fd = errnum ? -1 : take_fd(&fd);
	return OK;
}

fallible dial_tcp(struct loop *loop, struct str host, uint16_t port, int64_t deadline,
		  struct stream *out)
{
	const struct str both[] = {STR("127.0.0.1"), STR("::1")};
	bool local = str_eq_nocase(host, STR("localhost"));
	int errnum = ECONNREFUSED, fd = -1;

	for (int i = 0; i < (local ? 2 : 1); i++) {
		union address to;
		socklen_t len;

		if (!parse_host(local ? both[i] : host, port, &to, &len))
			return err_hint(err_new(INVALID, "bad_address",
						"'" STR_FMT "' is no numeric address",
						STR_ARG(host)),
					"name the server by its address, or as localhost");
		TRY(try_connect(&to, len, SOCK_STREAM, deadline, &fd, &errnum), "connect");
		if (!errnum)
			return stream_open(out, loop, fd);
	}
	return err_hint(err_new(UNAVAILABLE, "no_server", "nobody answers at " STR_FMT ":%u (%s)",
				STR_ARG(host), port, strerror(errnum)),
			"is the server running? cove serve starts one");
}

// ------------------------------------------------------------------------------ several addresses

struct dial_attempt {
	struct watch watch; // fd -1: not begun, or failed
	struct task *task;
	bool is_ready;
};

struct dial_race {
	struct loop *loop;
	struct dial_attempt at[DIAL_ADDRESSES_MAX];
	size_t begun, open;
	int64_t next_ms; // when the next attempt is due
	int errnum;	 // of the last attempt that failed
};

static void dial_attempt_end(struct dial_race *race, struct dial_attempt *attempt)
{
	loop_unwatch(race->loop, &attempt->watch);
	close(attempt->watch.fd);
	attempt->watch.fd = -1;
	race->open--;
}

static void dial_race_end(struct dial_race *race)
{
	for (size_t i = 0; i < race->begun; i++)
		if (race->at[i].watch.fd >= 0)
			dial_attempt_end(race, &race->at[i]);
}

static void dial_attempt_ready(struct watch *watch, uint32_t events)
{
	struct dial_attempt *attempt = link_of(watch, struct dial_attempt, watch);

	(void)events;
	attempt->is_ready = true;
	task_wake(attempt->task);
}

// Begins the next attempt. An attempt that fails at once is closed, and the next is due at once.
static fallible dial_race_begin(struct dial_race *race, const char *host, uint16_t port)
{
	struct dial_attempt *attempt = &race->at[race->begun];
	union address to;
	socklen_t len;
	int fd, on = 1;

	if (!parse_host(str_of(host), port, &to, &len))
		return err_new(INVALID, "bad_address", "'%s' is no numeric address", host);
	fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 && errno != EAFNOSUPPORT)
		return no_socket(errno);
	*attempt = (struct dial_attempt){.watch = {.fd = fd, .ready = dial_attempt_ready},
					 .task = task_current()};
	race->begun++;
	race->next_ms = 0;
	if (fd < 0) {
		race->errnum = EAFNOSUPPORT;
		return OK;
	}
	race->open++;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	dial_keep_alive(fd);
	if (connect(fd, &to.any, len) && errno != EINPROGRESS) {
		race->errnum = errno;
		dial_attempt_end(race, attempt);
		return OK;
	}
	race->next_ms = loop_now(race->loop) + DIAL_DELAY_MS;
	return loop_watch(race->loop, &attempt->watch, EPOLLOUT | EPOLLONESHOT);
}

// The number of an attempt that is connected, or -1. Attempts that failed are closed.
static int dial_race_winner(struct dial_race *race)
{
	for (size_t i = 0; i < race->begun; i++) {
		struct dial_attempt *attempt = &race->at[i];
		socklen_t size = sizeof(int);
		int errnum = 0;

		if (attempt->watch.fd < 0 || !attempt->is_ready)
			continue;
		if (getsockopt(attempt->watch.fd, SOL_SOCKET, SO_ERROR, &errnum, &size))
			errnum = errno;
		if (!errnum)
			return (int)i;
		race->errnum = errnum;
		race->next_ms = 0;
		dial_attempt_end(race, attempt);
	}
	return -1;
}

static fallible dial_race_wait(struct dial_race *race, size_t count, int64_t deadline)
{
	bool more = race->begun < count && race->next_ms < deadline;
	struct err *err = task_park(more ? race->next_ms : deadline);

	if (more && err && err_kind(err) == ERR_TIMEOUT)
		err_free(take_ptr(err));
	return err;
}

fallible dial_first(struct loop *loop, const char (*hosts)[DIAL_HOST_TEXT], size_t count,
		    uint16_t port, int64_t deadline, struct stream *out, size_t *out_which)
{
	on_exit_call(dial_race_end) struct dial_race race = {.loop = loop};
	int winner;

	if (count > DIAL_ADDRESSES_MAX)
		count = DIAL_ADDRESSES_MAX;
	while ((winner = dial_race_winner(&race)) < 0) {
		if (race.begun < count && loop_now(loop) >= race.next_ms)
			TRY(dial_race_begin(&race, hosts[race.begun], port));
		else if (race.open)
			TRY(dial_race_wait(&race, count, deadline));
		else
			return err_new(UNAVAILABLE, "no_server", "nobody answers at port %u (%s)",
				       port, strerror(race.errnum));
	}
	loop_unwatch(loop, &race.at[winner].watch);
	race.open--;
	*out_which = (size_t)winner;
	return stream_open(out, loop, take_fd(&race.at[winner].watch.fd));
}

static fallible connect_path(const char *path, int type, int64_t deadline, int *out_fd,
			     int *out_errnum)
{
	union address to = {.un = {.sun_family = AF_UNIX}};

	if (strlen(path) >= sizeof(to.un.sun_path))
		return err_new(INVALID, "bad_address", "the path of a socket is too long");
	memcpy(to.un.sun_path, path, strlen(path) + 1);
	return try_connect(&to, sizeof(to.un), type, deadline, out_fd, out_errnum);
}

fallible dial_unix(struct loop *loop, const char *path, int64_t deadline, struct stream *out)
{
	int errnum = 0, fd = -1;

	TRY(connect_path(path, SOCK_STREAM, deadline, &fd, &errnum));
	if (!errnum)
		return stream_open(out, loop, fd);
	if (errnum == EACCES || errnum == EPERM)
		return err_hint(
			err_new(FORBIDDEN, "no_right", "you may not connect to %s", path),
			"its group may: 'sudo usermod -aG cove-users $USER', then log in again");
	return err_hint(err_new(UNAVAILABLE, "no_server", "nobody answers at %s (%s)", path,
				strerror(errnum)),
			"is the server running? cove serve starts one");
}

fallible dial_local_fd(const char *path, int64_t deadline, int *out_fd)
{
	int errnum = 0, fd = -1;

	TRY(connect_path(path, SOCK_SEQPACKET, deadline, &fd, &errnum));
	if (errnum)
		return err_while(
			err_new(UNAVAILABLE, "no_server", "a part of the server is not running"),
			"connect to %s: %s", path, strerror(errnum));
	*out_fd = fd;
	return OK;
}

fallible dial_local(struct loop *loop, const char *path, int64_t deadline, struct stream *out)
{
	int fd = -1;

	TRY(dial_local_fd(path, deadline, &fd));
	return stream_open(out, loop, fd);
}
