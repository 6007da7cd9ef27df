// Protocols whose server speaks first (SMTP, SSH), and clients that do not finish their first line.
// They are connected by the name of their address. A second task passes on the server's bytes; this
// one peeks at the client's bytes before passing them on. Once the protocol is known the sockets
// are spliced.
//
// So silence does not evade a verdict: a late ClientHello must be for the judged host, and late
// requests are followed like others.
//
// syscalls: recvfrom shutdown
#include <errno.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/mem.h"
#include "egress/private.h"

#define ROOM (32 * 1024)

struct server_first {
	struct conn *conn;
	struct sniff *sniff;
	struct task *back;
	struct condition done;
	int64_t moved_ms; // when bytes last moved
	bool said;	  // the server has sent bytes
	bool stop;	  // stop passing its bytes on
	bool ended, spent;
};

static int64_t soon(const struct server_first *late, int64_t ms)
{
	return loop_now(late->conn->box->egress->loop) + ms;
}

// ------------------------------------------------------------------------------------ the server

// The budget is used up: the connection ends if there is more to send.
static fallible server_first_peek(struct server_first *late)
{
	char one;
	ssize_t n;

	TRY(stream_wait_readable(&late->conn->out, CLOCK_NEVER));
	n = recv(late->conn->out.fd, &one, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN)
		return err_new(BAD_PEER, "peer_gone", "the server closed the connection");
	late->spent = n > 0;
	late->ended = n == 0;
	late->conn->out.readable = n >= 0;
	return OK;
}

static fallible pass_back(struct server_first *late, char *room)
{
	struct conn *conn = late->conn;

	while (!late->stop && !late->ended && !late->spent) {
		size_t granted = conn_grant(conn, BUDGET_IN, ROOM), n = 0;
		bool empty = false;
		struct err *err;

		if (!granted) {
			TRY(server_first_peek(late));
			continue;
		}
		err = stream_read_now(&conn->out, room, granted, &empty, &n);
		conn_moved(conn, BUDGET_IN, n, granted - n);
		TRY(err);
		if (empty) {
			TRY(stream_wait_readable(&conn->out, CLOCK_NEVER));
			continue;
		}
		late->ended = !n;
		late->said |= n > 0;
		late->moved_ms = soon(late, 0);
		if (n)
			TRY(stream_write(&conn->in, room, n, IDLE_MS));
	}
	return OK;
}

static void server_first_carry_back(void *arg)
{
	struct server_first *late = arg;
	auto_free char *room = mem_new(ROOM);
	auto_err err = pass_back(late, room);

	late->back = NULL;
	// The server closed its half: close ours to the client, which may go on sending.
	if (late->ended && !err)
		shutdown(late->conn->in.fd, SHUT_WR);
	else if (!late->stop || err)
		late->sniff->over = true;
	if (late->sniff->over && late->conn->in.reader)
		task_wake(late->conn->in.reader);
	condition_signal(&late->done);
}

// False: bytes of the server may be lost.
static bool end_back(struct server_first *late)
{
	auto_err err = NULL;

	late->stop = true;
	if (late->back && late->conn->out.reader == late->back)
		task_wake(late->back);
	while (late->back && !err)
		err = condition_wait(&late->done, soon(late, HELLO_MS));
	if (late->back)
		task_cancel(late->back);
	while (late->back)
		condition_await(&late->done);
	return !err && (late->ended || !late->sniff->over);
}

// ------------------------------------------------------------------------------------ the client

// An unfinished line may be all that its protocol sends: pass it on, and keep it for the check.
static fallible server_first_pass_on(struct server_first *late)
{
	struct sniff *sniff = late->sniff;
	struct conn *conn = late->conn;
	size_t len = sniff->have - sniff->gone, n = 0;
	uint64_t granted = conn_grant(conn, BUDGET_OUT, len);
	bool empty = false;

	if (granted < len) {
		conn_moved(conn, BUDGET_OUT, 0, granted);
		late->spent = true;
		return err_new(EXHAUSTED, "budget_bytes", "the byte budget is used up");
	}
	conn_moved(conn, BUDGET_OUT, len, 0);
	TRY(stream_read_now(&conn->in, sniff->room + sniff->gone, len, &empty, &n));
	if (n != len)
		return err_new(BAD_PEER, "peer_gone", "the client closed the connection");
	TRY(stream_write(&conn->out, sniff->room + sniff->gone, len, IDLE_MS));
	sniff->gone = sniff->have;
	late->moved_ms = soon(late, 0);
	return OK;
}

// Waits until the client's protocol is known, or *out_reason: why it is denied.
static fallible wait_for_words(struct server_first *late, const char **out_reason)
{
	struct sniff *sniff = late->sniff;
	struct conn *conn = late->conn;
	int64_t hello_due = 0;

	for (;;) {
		bool greets = conn->protocol == SNIFF_TLS, waits = sniff->have > sniff->gone;
		int64_t due = greets  ? hello_due
			      : waits ? soon(late, SILENT_MS)
				      : late->moved_ms + IDLE_MS;
		bool end = false;
		struct err *err = sniff_wait(conn, sniff, due, &end);

		if (err && err_kind(err) == ERR_TIMEOUT && !greets &&
		    (waits || late->moved_ms + IDLE_MS > soon(late, 0))) {
			err_free(err);
			if (waits)
				TRY(server_first_pass_on(late));
			continue;
		}
		TRY(err);
		if (end && !greets)
			return OK;
		if (end)
			return err_new(BAD_PEER, "peer_gone", "the client closed the connection");
		switch (sniff_at(conn, sniff)) {
		case LOOKED_BAD:
			*out_reason = "bad_hello";
			return OK;
		case LOOKED_DONE:
			return OK;
		case LOOKED_MORE:
			if (!greets)
				hello_due = soon(late, HELLO_MS);
		}
	}
}

static bool is_for_another(const struct conn *conn, const struct hello *hello)
{
	return hello->has_name &&
	       (hello->kind != conn->kind || strcmp(hello->name, conn->name) != 0);
}

// NULL: allowed.
static const char *judge_words(struct server_first *late)
{
	struct conn *conn = late->conn;
	const char *reason = NULL;

	if (conn->protocol == SNIFF_HTTP)
		return late->said || late->sniff->gone ? "bad_request" : NULL;
	if (conn->protocol == SNIFF_TLS && is_for_another(conn, &late->sniff->hello))
		return "misdirected";
	if (!judge_name(conn, &reason))
		return reason;
	return conn->judged == JUDGED_INSPECT ? "not_inspected" : NULL;
}

// No byte was sent to the server: connect again when the host of the request is known.
static void follow_late(struct conn *conn, struct sniff *sniff)
{
	sniff_forget(sniff);
	stream_close(&conn->out);
	budget_unrequest(&conn->box->budget);
	conn->verdict->requests = 0;
	conn->verdict->opaque = conn->opaque = false;
	judge_close_verdict(conn, NULL);
	follow_serve_plain(conn);
}

static void server_first_finish(struct server_first *late, const struct err *err)
{
	struct conn *conn = late->conn;

	conn_abort(conn); // reset: the peer must not take it for an orderly end
	if (late->spent)
		judge_spent(conn);
	else if (err_kind(err) == ERR_TIMEOUT)
		judge_close_verdict(conn, conn->protocol == SNIFF_TLS ? "silent" : "idle");
	else
		judge_close_verdict(conn, err_kind(err) == ERR_CANCELLED ? "stopped" : "reset");
}

void server_first_serve(struct conn *conn, struct sniff *sniff)
{
	auto_free struct server_first *late = mem_new_of(struct server_first);
	const char *reason = NULL;
	auto_err err = NULL;
	bool whole;

	late->conn = conn;
	late->sniff = sniff;
	late->moved_ms = soon(late, 0);
	condition_init(&late->done);
	late->back = task_start(conn->box->egress->loop, "egress.late", server_first_carry_back,
				late);
	err = wait_for_words(late, &reason);
	if (err && late->back)
		task_cancel(late->back);
	whole = end_back(late);
	if (err) {
		server_first_finish(late, err);
		return;
	}
	if (!reason)
		reason = judge_words(late);
	if (reason) {
		stream_close(&conn->out);
		judge_deny(conn, reason);
		judge_close_verdict(conn, reason);
	} else if (conn->protocol == SNIFF_HTTP)
		follow_late(conn, sniff);
	else if (whole)
		err_free(conn_copy(conn));
	else {
		conn_abort(conn);
		judge_close_verdict(conn, "reset");
	}
}
