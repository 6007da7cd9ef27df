// Detects that the client is gone. A handler that waits for a command neither reads nor writes, so
// it would not notice. The stream reports every hang-up; a probe finds out what it means, see
// http.h. A client that vanished silently is found by TCP keep-alive, which connections inherit
// from the listener.
//
// syscalls: sendto getsockopt
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "http/channel.h"
#include "http/socket_transport.h"

#define PATIENCE_MS (15 * 60 * 1000)

static uint32_t quiet_ms = 15000;

void http_keepalive(uint32_t ms)
{
	quiet_ms = ms;
}

void socket_transport_be_patient(struct http *x)
{
	x->conn->silence_ms = PATIENCE_MS;
}

// False: the peer is gone, or the connection is unusable.
static bool send_now(struct http_conn *conn, struct str probe)
{
	char room[64];
	int len = conn->chunked ? snprintf(room, sizeof(room), "%zx\r\n" STR_FMT "\r\n", probe.len,
					   STR_ARG(probe))
				: snprintf(room, sizeof(room), STR_FMT, STR_ARG(probe));
	ssize_t sent;

	sent = send(conn->stream.fd, room, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
	// A full send buffer: the data in it will be answered by RST just as well. A part of a
	// probe would corrupt the reply.
	return sent == len || (sent < 0 && errno == EAGAIN);
}

static bool send_probe(struct http_conn *conn, struct str probe)
{
	if (conn->probed || !probe.len)
		return true;
	conn->probed = true;
	return send_now(conn, probe);
}

static bool is_gone(struct http_conn *conn, struct str probe)
{
	const struct stream *stream = &conn->stream;
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (stream->fd < 0 || stream->reset)
		return true;
	if (!stream->hung_up)
		return false;
	if (!send_probe(conn, probe))
		return true;
	// The RST may already have arrived without the loop having reported it.
	return getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
	       info.tcpi_state == TCP_CLOSE;
}

static struct str peer_allowed(const struct http *x, struct str probe)
{
	return x->head.minor == 0 ? STR("") : probe;
}

static void peer_on_hangup(struct stream *stream)
{
	struct http_conn *conn = link_of(stream, struct http_conn, stream);

	if (conn->absent && is_gone(conn, conn->probe))
		task_cancel(conn->absent);
}

static void on_quiet(struct timer *timer)
{
	struct http_conn *conn = link_of(timer, struct http_conn, quiet);

	if (!conn->absent)
		return;
	if (!send_now(conn, conn->probe)) {
		task_cancel(conn->absent);
		return;
	}
	loop_set_timer(conn->stream.loop, timer, loop_now(conn->stream.loop) + quiet_ms);
}

fallible socket_transport_away(struct http *x, struct str probe)
{
	struct http_conn *conn = x->conn;

	conn->probe = peer_allowed(x, probe);
	if (is_gone(conn, conn->probe)) {
		conn->close_after = true;
		return err_new(CANCELLED, "client_gone", "the client closed the connection");
	}
	conn->stream.on_hangup = peer_on_hangup;
	conn->absent = task_current();
	if (x->reply_begun && str_eq(probe, HTTP_PROBE_EVENT)) {
		conn->probe = probe;
		conn->quiet.due = on_quiet;
		loop_set_timer(conn->stream.loop, &conn->quiet,
			       loop_now(conn->stream.loop) + quiet_ms);
	}
	return OK;
}

void socket_transport_back(struct http *x)
{
	struct http_conn *conn = x->conn;

	conn->absent = NULL;
	if (conn->quiet.at)
		loop_drop_timer(conn->stream.loop, &conn->quiet);
}

// The kernel's tcp_info, which is longer than glibc's.
struct taken {
	struct tcp_info info;
	uint64_t pacing_rate, pacing_rate_max, acked;
};

uint64_t http_taken(struct http *x)
{
	struct taken taken = {0};
	socklen_t len = sizeof(taken);

	if (x->conn && !getsockopt(x->conn->stream.fd, IPPROTO_TCP, TCP_INFO, &taken, &len) &&
	    len == sizeof(taken))
		return taken.acked;
	return x->bytes_out;
}

bool socket_transport_is_gone(struct http *x, struct str probe)
{
	return is_gone(x->conn, peer_allowed(x, probe));
}
