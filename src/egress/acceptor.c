// Accepts connections of one box, and chooses how each is served. A connection beyond the limits of
// rate or open connections waits unread for up to WAIT_MS, then is reset. A connection beyond a
// budget is read as far as its host name, so that it can be refused with a message.
//
// A connection is a task until it is judged, by its first bytes (egress/sniff); then it is spliced,
// or stays a task whose requests are followed. No packet leaves the host before. The box object
// lives until its last connection is gone.
//
// TLS          the SNI of the ClientHello; without one, the name of the synthetic address
// HTTP         the Host of each request (egress/follow)
// other        the name of the synthetic address, else the address itself; also HTTP/2 without
//              TLS, whose requests are not seen
//
// syscalls: accept4 getsockname setsockopt close
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "egress/private.h"
#include "loop/dial.h"
#include "os/fd.h"
#include "protocol/hello.h"

#define ACCEPTS_MAX 64 // in one turn of the loop
#define PAUSE_MS 100   // after EMFILE or ENFILE
#define REFUSED_MAX 32 // that are read in order to be refused with a message
#define QUEUE_MAX 1024 // waiting connections of a box

struct arrival {
	struct link link;
	int fd;
	int64_t until_ms;
};

// ---------------------------------------------------------------------------------- serving

// The connection was allowed, but the server cannot be reached. A TLS client gets an alert,
// different from that of a denial; any other client a reset.
static void dispatch_unreached(struct conn *conn, const struct err *err)
{
	bool denied = !strcmp(err_reason(err), "not_global");
	struct str alert = denied ? HELLO_DENIED : HELLO_FAILED;

	if (err_kind(err) == ERR_CANCELLED || conn->protocol != SNIFF_TLS) {
		conn->in.aborted = true;
		return;
	}
	judge_say_last(conn, alert);
}

static void dispatch_opaque(struct conn *conn, struct sniff *sniff)
{
	enum budget_verdict spent = budget_request(&conn->box->budget);
	const char *reason;
	auto_err err = NULL;

	if (spent != BUDGET_OK) {
		judge_deny(conn, budget_reason(spent));
		return;
	}
	conn->opaque = true;
	err = judge_connect(conn);
	if (err) {
		budget_unopen(&conn->box->budget, true);
		conn->place = PLACE_NONE;
		dispatch_unreached(conn, err);
		return;
	}
	conn->place = PLACE_CONNECTED;
	// After a wait the policy may have changed.
	if (!judge_name(conn, &reason) || conn->judged == JUDGED_INSPECT)
		judge_close_verdict(conn, "stopped");
	else if (sniff->undecided)
		server_first_serve(conn, sniff);
	else
		err_free(conn_copy(conn));
}

static void dispatch_judge(struct conn *conn, struct sniff *sniff)
{
	auto_err err = NULL;
	const char *reason;

	sniff_take_target(conn);
	err = sniff_find_out(conn, sniff, judge_must_show(conn) != NULL);
	if (err) {
		if (err_kind(err) == ERR_INVALID || err_kind(err) == ERR_TOO_LARGE)
			judge_deny(conn, err_reason(err));
		else if (err_kind(err) == ERR_TIMEOUT)
			judge_note(conn, "silent");
		return;
	}
	if (conn->protocol == SNIFF_HTTP) {
		sniff_forget(sniff);
		follow_serve_plain(conn);
		return;
	}
	if (!judge_name(conn, &reason))
		judge_deny(conn, reason);
	else if (conn->refused != BUDGET_OK)
		judge_deny(conn, budget_reason(conn->refused));
	else if (conn->judged != JUDGED_INSPECT)
		dispatch_opaque(conn, sniff);
	else {
		sniff_forget(sniff);
		inspect_serve(conn);
	}
}

static void dispatch_serve(void *arg)
{
	struct conn *conn = arg;

	if (conn->port == 53) {
		if (conn->place == PLACE_HELD)
			budget_spare(&conn->box->budget);
		dns_stub_serve(conn);
	} else {
		struct sniff *sniff = sniff_new();

		dispatch_judge(conn, sniff);
		sniff_free(sniff);
	}
	if (!conn->splice)
		conn_end(conn);
}

// -------------------------------------------------------------------------------- accepting

static void reset(int fd)
{
	static const struct linger now = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

static bool read_target(int fd, struct address *out, uint16_t *out_port)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} at = {0};
	socklen_t len = sizeof(at);

	if (getsockname(fd, &at.any, &len))
		return false;
	*out = (struct address){.is_v6 = at.any.sa_family == AF_INET6};
	if (at.any.sa_family == AF_INET) {
		memcpy(out->at, &at.in.sin_addr, 4);
		*out_port = ntohs(at.in.sin_port);
		return true;
	}
	if (at.any.sa_family != AF_INET6)
		return false;
	*out_port = ntohs(at.in6.sin6_port);
	memcpy(out->at, &at.in6.sin6_addr, 16);
	if (!memcmp(out->at, mapped, 12)) {
		out->is_v6 = false;
		memcpy(out->at, (const uint8_t *)&at.in6.sin6_addr + 12, 4);
	}
	return true;
}

static void acceptor_admit(struct egress_box *box, int fd, enum budget_verdict refused)
{
	struct conn *conn = mem_new_of(struct conn);
	int on = 1;

	conn->box = box;
	conn->in.fd = conn->out.fd = -1;
	conn->refused = refused;
	conn->place = refused == BUDGET_OK ? PLACE_HELD : PLACE_NONE;
	box->count++;
	box->egress->count++;
	box->holders++;
	link_add(&box->conns, &conn->link);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!read_target(fd, &conn->to, &conn->port)) {
		close(fd);
		conn_end(conn);
		return;
	}
	err_free(stream_open(&conn->in, box->egress->loop, fd));
	conn->task = task_start(box->egress->loop, "egress", dispatch_serve, conn);
}

// True: admitted or refused. False: it keeps waiting, for the reason *out.
static bool acceptor_place(struct egress_box *box, int fd, bool is_late, enum budget_verdict *out)
{
	uint32_t open = box->budget.limits.open ? box->budget.limits.open : BUDGET_OPEN_DEFAULT;

	if (box->egress->count >= box->egress->count_max) {
		reset(fd);
		judge_note_many(box, "host_connections");
		return true;
	}
	*out = budget_open(&box->budget, false, loop_now(box->egress->loop));
	if (*out == BUDGET_OK || weak(CROWD) ||
	    (!conn_may_wait(*out) && box->count < open + REFUSED_MAX)) {
		acceptor_admit(box, fd, *out);
		return true;
	}
	if (conn_may_wait(*out) && !is_late)
		return false;
	reset(fd);
	judge_note_many(box, budget_reason(*out));
	return true;
}

static void queue_drop(struct egress_box *box, struct arrival *arrival)
{
	link_drop(&arrival->link);
	box->queued--;
	box->egress->queued--;
	free(arrival);
}

static void on_queue(struct timer *timer)
{
	struct egress_box *box = link_of(timer, struct egress_box, queue_due);
	struct loop *loop = box->egress->loop;
	enum budget_verdict verdict = BUDGET_OK;

	while (!link_empty(&box->queue)) {
		struct arrival *first = link_of(box->queue.next, struct arrival, link);

		if (!acceptor_place(box, first->fd, loop_now(loop) >= first->until_ms, &verdict)) {
			int64_t next = loop_now(loop) + conn_wait_ms(box, verdict);

			loop_set_timer(loop, timer,
				       next < first->until_ms ? next : first->until_ms);
			return;
		}
		queue_drop(box, first);
	}
}

static void queue_end(struct egress_box *box)
{
	loop_drop_timer(box->egress->loop, &box->queue_due);
	list_each (at, &box->queue) {
		struct arrival *arrival = link_of(at, struct arrival, link);

		reset(arrival->fd);
		queue_drop(box, arrival);
	}
}

static void acceptor_receive(struct egress_box *box, int fd)
{
	struct loop *loop = box->egress->loop;
	bool is_late = box->queued >= QUEUE_MAX ||
		       box->egress->count + box->egress->queued >= box->egress->count_max;
	enum budget_verdict verdict = BUDGET_RATE;
	struct arrival *arrival;

	// Connections are served in the order of their arrival.
	if ((!box->queued || is_late) && acceptor_place(box, fd, is_late, &verdict))
		return;
	arrival = mem_new_of(struct arrival);
	*arrival = (struct arrival){.fd = fd, .until_ms = loop_now(loop) + WAIT_MS};
	link_add(&box->queue, &arrival->link);
	box->egress->queued++;
	if (!box->queued++)
		loop_set_timer(loop, &box->queue_due, loop_now(loop) + conn_wait_ms(box, verdict));
}

static void on_again(struct timer *timer)
{
	struct egress_box *box = link_of(timer, struct egress_box, again);

	err_free(loop_watch(box->egress->loop, &box->listener, EPOLLIN));
}

static void acceptor_on_listener(struct watch *watch, uint32_t events)
{
	struct egress_box *box = link_of(watch, struct egress_box, listener);

	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			acceptor_receive(box, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN) {
			// EMFILE and the like: level-triggered epoll would report it again and
			// again.
			loop_unwatch(box->egress->loop, watch);
			loop_set_timer(box->egress->loop, &box->again,
				       loop_now(box->egress->loop) + PAUSE_MS);
		}
		return;
	}
}

fallible acceptor_open(struct egress_box *box, int listener)
{
	box->listener = (struct watch){.fd = listener, .ready = acceptor_on_listener};
	box->again = (struct timer){.due = on_again};
	box->queue_due = (struct timer){.due = on_queue};
	if (listener < 0)
		return OK;
	dial_keep_alive(listener); // accepted sockets inherit it
	if (fd_nonblock(listener, true))
		return err_sys(errno, "make the listener of %s non-blocking", box->id);
	return loop_watch(box->egress->loop, &box->listener, EPOLLIN);
}

void acceptor_close(struct egress_box *box)
{
	queue_end(box);
	loop_drop_timer(box->egress->loop, &box->again);
	loop_unwatch(box->egress->loop, &box->listener);
	fd_drop(&box->listener.fd);
}
