// From the first bytes of a connection (egress/look) to a verdict. Nobody outside hears of it
// before it is judged.
//
//	TLS          the name in the hello; without one, the name behind the synthetic address
//	HTTP         the Host of each request (egress/plain)
//	anything     the name behind the synthetic address, else the address itself; HTTP/2 without
//	             TLS as well, whose requests are not seen
//
// A name is what is judged, looked up and connected to. The address that the box used counts for
// nothing, unless it is all there is.
//
// syscalls: shutdown
#include <stdio.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "egress/inner.h"
#include "model/hello.h"
#include "wire/http1.h"

#define PART_MS 1000 // to read our last word
#define PART_MAX (256 * 1024)
#define ROWS_PER_SECOND 50 // of denials, each box
#define EVENTS_PER_SECOND 20

bool burst_has_room(struct burst *burst, int64_t now_ms, uint32_t per_second)
{
	if (now_ms - burst->since_ms >= 1000 || now_ms < burst->since_ms)
		*burst = (struct burst){.since_ms = now_ms};
	if (burst->count >= per_second)
		return false;
	burst->count++;
	return true;
}

// ------------------------------------------------------------------------------------- denials

static void judge_tell(const struct conn *conn, const char *reason)
{
	struct egress_box *box = conn->box;
	auto_buf hint = BUF_INIT(1024);
	char port[8], address[ADDRESS_TEXT];

	if (!burst_has_room(&box->events, loop_now(box->egress->loop), EVENTS_PER_SECOND))
		return;
	snprintf(port, sizeof(port), "%u", conn->port);
	address_write(&conn->to, address);
	policy_hint(&hint, box->id, conn->name, conn->port, reason);
	log_event_of(box->id, LOG_INFO, "security", "event", "egress_denied", "severity", "low",
		     "sandbox", box->id, "name", conn->name[0] ? conn->name : NULL, "address",
		     address, "port", port, "reason", reason, "hint", hint.len ? hint.at : NULL,
		     NULL);
}

void judge_close_rest(struct egress_box *box)
{
	loop_drop_timer(box->egress->loop, &box->rest_due);
	if (box->rest)
		verdict_done(box->egress->verdicts, take_ptr(box->rest));
}

static void on_rest(struct timer *timer)
{
	judge_close_rest(link_of(timer, struct egress_box, rest_due));
}

static struct verdict *denial(struct egress_box *box, const char *reason)
{
	struct verdict *verdict = verdict_new(box->egress->verdicts, box->id, box->tenant);

	verdict_set(verdict->reason, sizeof(verdict->reason), reason);
	return verdict;
}

// Beyond so many rows a second there is one for all that come: their sum is exact, their names are
// lost.
static bool count_in_rest(struct egress_box *box)
{
	int64_t now = loop_now(box->egress->loop);

	box->denied++;
	if (burst_has_room(&box->rows, now, ROWS_PER_SECOND))
		return false;
	if (!box->rest) {
		box->rest = denial(box, "more");
		box->rest_due.due = on_rest;
		loop_set_timer(box->egress->loop, &box->rest_due, now + 1000);
	}
	box->rest->denied++;
	return true;
}

void judge_note_many(struct egress_box *box, const char *reason)
{
	struct verdict *verdict;

	if (count_in_rest(box))
		return;
	verdict = denial(box, reason);
	verdict->denied = 1;
	verdict_done(box->egress->verdicts, verdict);
	if (burst_has_room(&box->events, loop_now(box->egress->loop), EVENTS_PER_SECOND))
		log_event_of(box->id, LOG_INFO, "security", "event", "egress_denied", "severity",
			     "low", "sandbox", box->id, "reason", reason, NULL);
}

void judge_note(struct conn *conn, const char *reason)
{
	struct egress_box *box = conn->box;
	struct verdict *verdict;

	judge_tell(conn, reason);
	if (count_in_rest(box))
		return;
	verdict = denial(box, reason);
	verdict->denied = 1;
	verdict->port = conn->port;
	verdict_set(verdict->name, sizeof(verdict->name), conn->name);
	address_write(&conn->to, verdict->address);
	verdict_done(box->egress->verdicts, verdict);
}

void judge_note_name(struct egress_box *box, const char *name)
{
	struct verdict *verdict;

	if (burst_has_room(&box->events, loop_now(box->egress->loop), EVENTS_PER_SECOND))
		log_event_of(box->id, LOG_INFO, "security", "event", "egress_denied", "severity",
			     "low", "sandbox", box->id, "name", name, "reason", "not_allowed",
			     NULL);
	if (count_in_rest(box))
		return;
	verdict = denial(box, "not_allowed");
	verdict->denied = 1;
	verdict_set(verdict->name, sizeof(verdict->name), name);
	verdict_done(box->egress->verdicts, verdict);
}

static bool is_budget(const char *reason)
{
	for (int i = BUDGET_OK + 1; i < BUDGET_VERDICTS; i++)
		if (!strcmp(reason, budget_reason((enum budget_verdict)i)))
			return true;
	return false;
}

static const char *words_of(const char *reason)
{
	for (int i = BUDGET_OK + 1; i < BUDGET_VERDICTS; i++)
		if (!strcmp(reason, budget_reason((enum budget_verdict)i)))
			return budget_words((enum budget_verdict)i);
	return policy_words(reason);
}

static int status_of(const char *reason)
{
	if (!strcmp(reason, "bad_request"))
		return 400;
	if (!strcmp(reason, "misdirected"))
		return 421;
	if (!strcmp(reason, "unknown_name") || !strcmp(reason, "no_server") ||
	    !strcmp(reason, "bad_tls") || !strcmp(reason, "bad_reply"))
		return 502;
	if (!strcmp(reason, "timeout"))
		return 504;
	return is_budget(reason) ? 429 : 403;
}

void judge_write_reply(const struct conn *conn, const char *reason, struct buf *out)
{
	int status = status_of(reason);
	auto_buf body = BUF_INIT(2048), hint = BUF_INIT(1024);

	policy_hint(&hint, conn->box->id, conn->name, conn->port, reason);
	buf_fmt(&body, "cove: %s:%u: %s", conn->name[0] ? conn->name : "this connection",
		conn->port, reason);
	if (status == 403 || status == 429)
		buf_fmt(&body, ": %s", words_of(reason));
	if (hint.len)
		buf_fmt(&body, "; to allow it: %s", hint.at);
	buf_char(&body, '\n');
	buf_fmt(out,
		"HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
		"Content-Length: %zu\r\nX-Cove-Reason: %s\r\nConnection: close\r\n\r\n",
		status, http1_status_text(status), body.len, reason);
	buf_str(out, buf_view(&body));
}

// A socket that is closed with bytes unread is reset, and the client may never see what we said.
void judge_part(struct conn *conn)
{
	int64_t deadline = loop_now(conn->box->egress->loop) + PART_MS;
	auto_free char *room = mem_new(16 * 1024);
	size_t n = 1, total = 0;
	auto_err err = NULL;

	shutdown(conn->in.fd, SHUT_WR);
	while (!err && n && total < PART_MAX) {
		err = stream_read(&conn->in, room, 16 * 1024, deadline, &n);
		total += err ? 0 : n;
	}
}

void judge_deny(struct conn *conn, const char *reason)
{
	auto_buf reply = BUF_INIT(4096);
	auto_err err = NULL;

	judge_note(conn, reason);
	if (conn->counted && !conn->verdict) {
		budget_unopen(&conn->box->budget, false);
		conn->counted = false;
	}
	if (conn->tongue == TONGUE_TLS)
		buf_str(&reply, HELLO_DENIED);
	else if (conn->tongue == TONGUE_HTTP)
		judge_write_reply(conn, reason, &reply);
	else
		return;
	err = stream_write(&conn->in, reply.at, reply.len, PART_MS);
	if (!err)
		judge_part(conn);
}

// ------------------------------------------------------------------------------------- verdicts

static bool is_web(uint16_t port)
{
	return port == 80 || port == 443;
}

// Why it has to be TLS or HTTP: what is neither shows no request. NULL: it may be anything.
// HTTP/2 is at home on the ports of the web.
static const char *must_show(const struct conn *conn)
{
	const struct policy *policy = &conn->box->policy;

	if (policy_has_rules(policy, conn->name))
		return "not_inspected";
	if ((is_web(conn->port) && conn->tongue != TONGUE_HTTP2) ||
	    (conn->kind == HOSTNAME_NAME && policy_inspects(policy, conn->name)))
		return "not_http";
	return conn->box->budget.limits.requests != BUDGET_NONE ? "not_counted" : NULL;
}

bool judge_name(struct conn *conn, const char **out_reason)
{
	bool shows = conn->tongue == TONGUE_TLS || conn->tongue == TONGUE_HTTP;
	const char *hidden = shows ? NULL : must_show(conn);
	const struct policy *policy = &conn->box->policy;
	struct policy_verdict verdict =
		conn->ech ? policy_judge_ech(policy, conn->kind, conn->name, conn->port)
			  : policy_judge(policy, conn->kind, conn->name, conn->port);

	conn->judged = true;
	conn->inspected = verdict.allow && verdict.inspect && conn->tongue == TONGUE_TLS;
	// Rules bind requests: what shows none could be any.
	if (conn->tongue == TONGUE_TLS && !conn->inspected && policy_has_rules(policy, conn->name))
		hidden = "not_inspected";
	if (verdict.allow && hidden)
		verdict = (struct policy_verdict){.reason = hidden};
	*out_reason = verdict.allow ? "" : verdict.reason ? verdict.reason : "not_allowed";
	verdict_set(conn->rule, sizeof(conn->rule), verdict.rule);
	return verdict.allow || weak(JUDGE);
}

// What has come of a connection that was let out, to whoever follows the events.
static void judge_tell_end(struct egress_box *box, const struct verdict *verdict)
{
	char port[8], requests[24], out[24], in[24];

	if (!burst_has_room(&box->ends, loop_now(box->egress->loop), EVENTS_PER_SECOND))
		return;
	snprintf(port, sizeof(port), "%u", verdict->port);
	snprintf(requests, sizeof(requests), "%llu", (unsigned long long)verdict->requests);
	snprintf(out, sizeof(out), "%llu", (unsigned long long)verdict->bytes_out);
	snprintf(in, sizeof(in), "%llu", (unsigned long long)verdict->bytes_in);
	log_event(LOG_DEBUG, "egress", "sandbox", box->id, "name", verdict->name, "port", port,
		  "verdict", "allow", "rule", verdict->rule, "requests", requests, "bytesOut", out,
		  "bytesIn", in, "reason", verdict->reason[0] ? verdict->reason : NULL, NULL);
}

void judge_close_verdict(struct conn *conn, const char *reason)
{
	struct verdict *verdict = conn->verdict;

	if (!verdict)
		return;
	if (reason)
		verdict_set(verdict->reason, sizeof(verdict->reason), reason);
	if (verdict->allowed)
		judge_tell_end(conn->box, verdict);
	conn->verdict = NULL;
	verdict_done(conn->box->egress->verdicts, verdict);
}

void judge_open_verdict(struct conn *conn, bool first)
{
	struct egress_box *box = conn->box;
	struct verdict *verdict = verdict_new(box->egress->verdicts, box->id, box->tenant);

	verdict->allowed = true;
	verdict->port = conn->port;
	verdict->connections = first;
	verdict->requests = verdict->opaque = conn->opaque;
	verdict_set(verdict->name, sizeof(verdict->name), conn->name);
	verdict_set(verdict->rule, sizeof(verdict->rule), conn->rule);
	box->opaque |= conn->opaque;
	conn->verdict = verdict;
}

// It was allowed, but there is nothing to connect to, or nothing that one may connect to.
static void close_unused(struct conn *conn, const struct err *err)
{
	struct verdict *verdict = conn->verdict;

	verdict->connections = verdict->requests = 0;
	if (!strcmp(err_reason(err), "not_global")) {
		verdict->allowed = false;
		verdict->denied = 1;
		conn->box->denied++;
		judge_tell(conn, "not_global");
	}
	judge_close_verdict(conn, err_reason(err));
}

fallible judge_connect(struct conn *conn)
{
	struct egress *egress = conn->box->egress;
	bool first = !conn->was_out;
	struct address address;
	struct err *err;

	judge_open_verdict(conn, first);
	err = resolve_connect(egress->resolve, conn->box->id, conn->name, conn->port,
			      loop_now(egress->loop) + DIAL_MS, &conn->out, &address);
	if (err) {
		close_unused(conn, err);
		return err;
	}
	address_write(&address, conn->verdict->address);
	return OK;
}

// ---------------------------------------------------------------------------------- carrying it

static uint64_t on_grant(void *arg, enum pour_way way, uint64_t want)
{
	return conn_grant(arg, way == POUR_OUT ? BUDGET_OUT : BUDGET_IN, want);
}

static void on_moved(void *arg, enum pour_way way, uint64_t bytes, uint64_t unused)
{
	conn_moved(arg, way == POUR_OUT ? BUDGET_OUT : BUDGET_IN, bytes, unused);
}

void judge_spent(struct conn *conn)
{
	const char *reason = budget_reason(budget_spent(&conn->box->budget));

	judge_tell(conn, reason);
	judge_close_verdict(conn, reason);
}

static void judge_on_ended(void *arg, enum pour_end end)
{
	static const char *const reasons[] = {
		[POUR_RESET] = "reset", [POUR_IDLE] = "idle", [POUR_STOPPED] = "stopped"};
	struct conn *conn = arg;

	conn->pour = NULL;
	if (end == POUR_SPENT)
		judge_spent(conn);
	else
		judge_close_verdict(conn, reasons[end]);
	conn_end(conn);
}

static const struct pour_table carrying = {
	.grant = on_grant, .moved = on_moved, .ended = judge_on_ended};

static int judge_release(struct stream *stream)
{
	int fd = stream->fd;

	loop_unwatch(stream->loop, &stream->watch);
	stream->fd = -1;
	return fd;
}

fallible judge_pour(struct conn *conn)
{
	conn->task = NULL;
	return pour_start(conn->box->egress->loop, judge_release(&conn->in),
			  judge_release(&conn->out), IDLE_MS, &carrying, conn, &conn->pour);
}

// The connection was allowed, and there is nothing to connect to. A TLS client is told by an alert,
// which is not the one of a denial unless this is one; any other by a reset.
static void unreached(struct conn *conn, const struct err *err)
{
	bool denied = !strcmp(err_reason(err), "not_global");
	struct str alert = denied ? HELLO_DENIED : HELLO_FAILED;
	auto_err failed = NULL;

	if (err_kind(err) == ERR_CANCELLED || conn->tongue != TONGUE_TLS) {
		conn->in.aborted = true;
		return;
	}
	failed = stream_write(&conn->in, alert.at, alert.len, PART_MS);
	if (!failed)
		judge_part(conn);
}

static void carry_opaque(struct conn *conn, struct look *look)
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
	conn->was_out = !err;
	if (err) {
		budget_unopen(&conn->box->budget, true);
		conn->counted = false;
		unreached(conn, err);
		return;
	}
	// It was a wait: the policy may be another one.
	if (!judge_name(conn, &reason) || conn->inspected)
		judge_close_verdict(conn, "stopped");
	else if (look->undecided)
		late_serve(conn, look);
	else
		err_free(judge_pour(conn));
}

static void judge_judge(struct conn *conn, struct look *look)
{
	auto_err err = NULL;
	const char *reason;

	look_take_target(conn);
	err = look_find_out(conn, look, must_show(conn) != NULL);
	if (err) {
		if (err_kind(err) == ERR_INVALID || err_kind(err) == ERR_TOO_LARGE)
			judge_deny(conn, err_reason(err));
		else if (err_kind(err) == ERR_TIMEOUT)
			judge_note(conn, "silent");
		return;
	}
	if (conn->tongue == TONGUE_HTTP) {
		look_forget(look);
		plain_serve(conn);
		return;
	}
	if (!judge_name(conn, &reason))
		judge_deny(conn, reason);
	else if (conn->refused != BUDGET_OK)
		judge_deny(conn, budget_reason(conn->refused));
	else if (!conn->inspected)
		carry_opaque(conn, look);
	else {
		look_forget(look);
		inspect_serve(conn);
	}
}

void judge_serve(struct conn *conn)
{
	if (conn->port == 53) {
		if (conn->counted)
			budget_spare(&conn->box->budget);
		stub_serve(conn);
	} else {
		struct look *look = look_new();

		judge_judge(conn, look);
		look_free(look);
	}
	if (!conn->pour)
		conn_end(conn);
}
