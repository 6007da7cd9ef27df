// Decides whether a connection is allowed, records it, and tells the client about a denial. The
// host name is judged, looked up and connected to. The address that the box used counts only if
// there is no name.
//
// syscalls: shutdown
#include <stdio.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "codec/http1.h"
#include "egress/private.h"
#include "protocol/hello.h"
#include "types/event.h"

#define PART_MS 1000 // for the client to read the last reply
#define PART_MAX (256 * 1024)
#define ROWS_PER_SECOND 50 // rows of denials per box
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

// `address`, `port` and `hint` may be NULL.
static void judge_publish_denial(struct egress_box *box, const char *name, const char *address,
				 const char *port, const char *reason, const char *hint)
{
	if (!log_event_of(box->id, LOG_INFO, "security", "event", "egress_denied", "severity",
			  "low", "sandbox", box->id, "name", name, "address", address, "port", port,
			  "reason", reason, "hint", hint, NULL))
		return;
	event_publish(EVENT_SECURITY, "event", "egress_denied", "severity", "low", "sandbox",
		      box->id, "name", name, "address", address, "port", port, "reason", reason,
		      "hint", hint, NULL);
}

static bool may_publish(struct egress_box *box)
{
	return burst_has_room(&box->events, loop_now(box->egress->loop), EVENTS_PER_SECOND);
}

static void judge_publish(const struct conn *conn, const char *reason)
{
	struct egress_box *box = conn->box;
	auto_buf hint = BUF_INIT(1024);
	char port[8], address[ADDRESS_TEXT];

	if (!may_publish(box))
		return;
	snprintf(port, sizeof(port), "%u", conn->port);
	address_write(&conn->to, address);
	policy_hint(&hint, box->id, conn->name, conn->port, reason);
	judge_publish_denial(box, conn->name[0] ? conn->name : NULL, address, port, reason,
			     hint.len ? hint.at : NULL);
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

// Denials beyond the rate share one row: their number is exact, their names are lost.
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

// False: it was counted in the shared row.
static bool judge_record(struct egress_box *box, const struct conn *conn, const char *name,
			 const char *reason)
{
	struct verdict *verdict;

	if (count_in_rest(box))
		return false;
	verdict = denial(box, reason);
	verdict->denied = 1;
	verdict_set(verdict->name, sizeof(verdict->name), name);
	if (conn) {
		verdict->port = conn->port;
		address_write(&conn->to, verdict->address);
	}
	verdict_done(box->egress->verdicts, verdict);
	return true;
}

void judge_note_many(struct egress_box *box, const char *reason)
{
	if (judge_record(box, NULL, NULL, reason) && may_publish(box))
		judge_publish_denial(box, NULL, NULL, NULL, reason, NULL);
}

void judge_note(struct conn *conn, const char *reason)
{
	judge_publish(conn, reason);
	judge_record(conn->box, conn, conn->name, reason);
}

void judge_note_name(struct egress_box *box, const char *name)
{
	if (may_publish(box))
		judge_publish_denial(box, name, NULL, NULL, "not_allowed", NULL);
	judge_record(box, NULL, name, "not_allowed");
}

// BUDGET_OK: the reason is another.
static enum budget_verdict budget_of(const char *reason)
{
	for (int i = BUDGET_OK + 1; i < BUDGET_VERDICTS; i++)
		if (!strcmp(reason, budget_reason((enum budget_verdict)i)))
			return (enum budget_verdict)i;
	return BUDGET_OK;
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
	return budget_of(reason) != BUDGET_OK ? 429 : 403;
}

void judge_write_reply(const struct conn *conn, const char *reason, struct buf *out)
{
	int status = status_of(reason);
	auto_buf body = BUF_INIT(2048), hint = BUF_INIT(1024);

	policy_hint(&hint, conn->box->id, conn->name, conn->port, reason);
	buf_fmt(&body, "cove: %s:%u: %s", conn->name[0] ? conn->name : "this connection",
		conn->port, reason);
	if (status == 403 || status == 429)
		buf_fmt(&body, ": %s",
			status == 429 ? budget_words(budget_of(reason)) : policy_words(reason));
	if (hint.len)
		buf_fmt(&body, "; to allow it: %s", hint.at);
	buf_char(&body, '\n');
	buf_fmt(out,
		"HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
		"Content-Length: %zu\r\nX-Cove-Reason: %s\r\nConnection: close\r\n\r\n",
		status, http1_status_text(status), body.len, reason);
	buf_str(out, buf_view(&body));
}

// Closing a socket with unread bytes resets it: the client might never see the reply.
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

void judge_say_last(struct conn *conn, struct str words)
{
	auto_err err = stream_write(&conn->in, words.at, words.len, PART_MS);

	if (!err)
		judge_part(conn);
}

void judge_deny(struct conn *conn, const char *reason)
{
	auto_buf reply = BUF_INIT(4096);

	judge_note(conn, reason);
	conn_return_place(conn);
	if (conn->protocol == SNIFF_TLS)
		buf_str(&reply, HELLO_DENIED);
	else if (conn->protocol == SNIFF_HTTP)
		judge_write_reply(conn, reason, &reply);
	else
		return;
	judge_say_last(conn, buf_view(&reply));
}

// ------------------------------------------------------------------------------------- verdicts

// HTTP/2 uses the web's ports.
const char *judge_must_show(const struct conn *conn)
{
	const struct policy *policy = &conn->box->policy;

	if (policy_has_rules(policy, conn->name))
		return "not_inspected";
	if (((conn->port == 80 || conn->port == 443) && conn->protocol != SNIFF_HTTP2) ||
	    (conn->kind == HOSTNAME_NAME && policy_inspects(policy, conn->name)))
		return "not_http";
	return conn->box->budget.limits.requests != BUDGET_NONE ? "not_counted" : NULL;
}

bool judge_name(struct conn *conn, const char **out_reason)
{
	bool shows = conn->protocol == SNIFF_TLS || conn->protocol == SNIFF_HTTP;
	const char *hidden = shows ? NULL : judge_must_show(conn);
	const struct policy *policy = &conn->box->policy;
	struct policy_verdict verdict =
		conn->ech ? policy_judge_ech(policy, conn->kind, conn->name, conn->port)
			  : policy_judge(policy, conn->kind, conn->name, conn->port);

	conn->judged = verdict.allow && verdict.inspect && conn->protocol == SNIFF_TLS
			       ? JUDGED_INSPECT
			       : JUDGED;
	// Rules are about requests: a connection that hides its requests is denied.
	if (conn->protocol == SNIFF_TLS && conn->judged == JUDGED &&
	    policy_has_rules(policy, conn->name))
		hidden = "not_inspected";
	if (verdict.allow && hidden)
		verdict = (struct policy_verdict){.reason = hidden};
	*out_reason = verdict.allow ? "" : verdict.reason ? verdict.reason : "not_allowed";
	verdict_set(conn->rule, sizeof(conn->rule), verdict.rule);
	return verdict.allow || weak(JUDGE);
}

// Publishes the end of an allowed connection.
static void judge_publish_end(struct egress_box *box, const struct verdict *verdict)
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
	event_publish(EVENT_EGRESS, "sandbox", box->id, "name", verdict->name, "port", port,
		      "verdict", "allow", "rule", verdict->rule, "requests", requests, "bytesOut",
		      out, "bytesIn", in, "reason", verdict->reason[0] ? verdict->reason : NULL,
		      NULL);
}

void judge_close_verdict(struct conn *conn, const char *reason)
{
	struct verdict *verdict = conn->verdict;

	if (!verdict)
		return;
	if (reason)
		verdict_set(verdict->reason, sizeof(verdict->reason), reason);
	if (verdict->allowed)
		judge_publish_end(conn->box, verdict);
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

// Allowed, but the server does not exist or may not be connected to.
static void close_unused(struct conn *conn, const struct err *err)
{
	struct verdict *verdict = conn->verdict;

	verdict->connections = verdict->requests = 0;
	if (!strcmp(err_reason(err), "not_global")) {
		verdict->allowed = false;
		verdict->denied = 1;
		conn->box->denied++;
		judge_publish(conn, "not_global");
	}
	judge_close_verdict(conn, err_reason(err));
}

fallible judge_connect(struct conn *conn)
{
	struct egress *egress = conn->box->egress;
	bool first = conn->place < PLACE_CONNECTED;
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

void judge_spent(struct conn *conn)
{
	const char *reason = budget_reason(budget_spent(&conn->box->budget));

	judge_publish(conn, reason);
	judge_close_verdict(conn, reason);
}

void judge_note_secret(struct conn *conn, const struct policy_secret *secret)
{
	struct egress *egress = conn->box->egress;

	if (conn->verdict)
		verdict_add_secret(conn->verdict, secret->name);
	if (egress->on_secret && secret->is_named)
		egress->on_secret(egress->on_secret_arg, conn->box->tenant, conn->box->id,
				  secret->name, conn->name);
}
