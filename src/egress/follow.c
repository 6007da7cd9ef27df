// Follows HTTP/1 connections. One task reads requests and relays replies; a second one sends the
// body of a request, because a server may reply before its end, or request it by a 100. A reply
// that ends before the body of its request ends the connection.
//
// Heads are parsed by the strict grammar of codec/http1 and passed on byte for byte, unless secrets
// are substituted (egress/copy) or another protocol is offered. Bodies are passed on
// unchanged; their framing is tracked to find the next request.
#include "egress/follow.h"

#include <sys/socket.h>

#include "base/auto.h"
#include "base/mem.h"

#define REST_MS 1000 // between two requests: then the previous ones are recorded

// ------------------------------------------------------------------------------------ the reply

static fallible egress_follow_read_reply(struct follow *follow)
{
	struct buf *got = &follow->got_up;

	for (;;) {
		enum http1_verdict verdict = http1_reply(buf_view(got), &follow->reply);
		size_t n = 0;

		if (verdict == HTTP1_DONE)
			return OK;
		if (verdict != HTTP1_MORE)
			return err_new(BAD_PEER, "bad_reply", "the server's reply is malformed");
		TRY(egress_copy_more(&follow->up, got, 0, egress_copy_soon(follow, IDLE_MS), &n));
		if (!n)
			return err_new(BAD_PEER, "no_reply", "the server closed the connection");
	}
}

// WebSocket is the only upgrade allowed: HTTP/2, say, would carry requests that are not seen.
static bool is_websocket(const struct http1_head *head)
{
	size_t count = 0, other = 0;

	for (size_t i = 0; i < head->field_count; i++)
		if (str_eq_nocase(head->fields[i].name, STR("upgrade"))) {
			count++;
			other += !str_eq_nocase(head->fields[i].value, STR("websocket"));
		}
	return head->upgrade && head->minor == 1 && count == 1 && !other;
}

static fallible relay_reply(struct follow *follow)
{
	for (;;) {
		int status;
		struct body body;

		TRY(egress_follow_read_reply(follow));
		status = follow->reply.status;
		body = status < 200 ? (struct body){.kind = BODY_NONE}
				    : body_of_reply(&follow->reply, follow->is_head);
		if (!follow->reply.keep_alive || body.kind == BODY_CLOSE)
			follow->next = FOLLOW_LAST;
		if (status == 101 && (!follow->websocket || !is_websocket(&follow->reply)))
			return err_new(BAD_PEER, "bad_reply",
				       "the server switched to a protocol that was not requested");
		if (follow->secrets.count) {
			TRY(substitute_reply(follow, &body));
		} else {
			follow->replied |= status >= 200 || status == 101;
			TRY(egress_copy_pass(follow, BUDGET_IN, follow->got_up.at,
					     follow->reply.size));
			buf_drop_front(&follow->got_up, follow->reply.size);
			TRY(egress_copy_body(follow, &body, BUDGET_IN));
		}
		if (status == 101)
			follow->next = FOLLOW_UPGRADED;
		if (status == 101 || status >= 200)
			return OK;
	}
}

// --------------------------------------------------------------------------------- the request

// A kept connection is recorded in the ledger while it is idle.
static fallible egress_follow_read_next(struct follow *follow, int64_t deadline, size_t *out)
{
	struct err *err = egress_copy_more(&follow->in, &follow->got_in, 0,
					   egress_copy_soon(follow, REST_MS), out);

	if (!err || err_kind(err) != ERR_TIMEOUT)
		return err;
	err_free(err);
	judge_close_verdict(follow->conn, NULL);
	return egress_copy_more(&follow->in, &follow->got_in, 0, deadline, out);
}

// *out_over: the client closed between two requests.
static fallible egress_follow_read_request(struct follow *follow, bool first, bool *out_over)
{
	struct buf *got = &follow->got_in;
	int64_t deadline = egress_copy_soon(follow, first ? HELLO_MS : IDLE_MS);

	for (;;) {
		enum http1_verdict verdict = http1_request(buf_view(got), &follow->request);
		bool fresh = !got->len;
		size_t n = 0;

		if (verdict == HTTP1_DONE)
			return OK;
		if (verdict != HTTP1_MORE)
			return err_new(INVALID, "bad_request", "the request is malformed");
		TRY(fresh && !first ? egress_follow_read_next(follow, deadline, &n)
				    : egress_copy_more(&follow->in, got, 0, deadline, &n));
		if (!n && fresh) {
			*out_over = true;
			return OK;
		}
		if (!n)
			return err_new(BAD_PEER, "peer_gone", "the client closed the connection");
		if (fresh)
			deadline = egress_copy_soon(follow, HELLO_MS);
	}
}

// The host of a request: exactly one Host field, or none if the connection already has a name.
static bool egress_follow_read_name(struct follow *follow)
{
	struct str host = http1_field(&follow->request, "host");
	struct conn *conn = follow->conn;
	uint16_t port;

	if (host.at && host.len) {
		conn->kind = hostname_read_host(host, conn->name, &port);
	} else {
		conn->kind = follow->target_kind;
		memcpy(conn->name, follow->target, sizeof(conn->name));
	}
	return conn->kind != HOSTNAME_BAD;
}

// Methods whose reply repeats the request: secret values would return to the box.
static bool tells_back(struct str method)
{
	return str_eq_nocase(method, STR("TRACE")) || str_eq_nocase(method, STR("TRACK"));
}

// NULL: allowed and counted. Otherwise the reason.
static const char *judge_request(struct follow *follow)
{
	struct conn *conn = follow->conn;
	const struct http1_head *request = &follow->request;
	const char *reason = NULL;
	enum budget_verdict spent;

	// The origin form of a target, or "*" of OPTIONS.
	if (!(request->target.len && request->target.at[0] == '/') &&
	    !(str_is(request->target, "*") && str_is(request->method, "OPTIONS")))
		return "bad_request";
	if (!egress_follow_read_name(follow))
		return "no_name";
	// Requests on a TLS connection must be for the host whose certificate was shown.
	if (follow->in.tls && strcmp(conn->name, follow->target) != 0)
		return "misdirected";
	if (!judge_name(conn, &reason))
		return reason;
	if (follow->in.tls && conn->judged != JUDGED_INSPECT)
		return "not_allowed"; // the policy has changed
	secrets_set_done(&follow->secrets);
	if (conn->judged == JUDGED_INSPECT)
		secrets_set_init(&follow->secrets, conn);
	if (follow->secrets.count && tells_back(request->method))
		return "trace_not_allowed";
	if (!policy_judge_request(&conn->box->policy, conn->name, request->method, request->target,
				  &reason))
		return reason;
	if (conn->refused != BUDGET_OK)
		return budget_reason(conn->refused);
	spent = budget_request(&conn->box->budget);
	return spent == BUDGET_OK ? NULL : budget_reason(spent);
}

// ------------------------------------------------------------------------------------ upstream

// Each upstream connection counts, also if the box's connection stays the same. The request is
// already counted.
static fallible charge(struct follow *follow)
{
	struct conn *conn = follow->conn;
	struct budget *budget = &conn->box->budget;
	enum budget_verdict spent;

	if (conn->place < PLACE_CONNECTED)
		return OK;
	if (conn->place == PLACE_CONNECTED)
		budget_close(budget);
	conn->place = PLACE_CLOSED;
	budget_unrequest(budget);
	TRY(conn_await(conn->box, &spent));
	if (spent != BUDGET_OK) {
		follow->spent = budget_reason(spent);
		judge_note(conn, follow->spent);
		return err_new(EXHAUSTED, "budget_connections", "a budget is used up");
	}
	conn->place = PLACE_HELD;
	budget_request(budget);
	return OK;
}

static fallible egress_follow_reach(struct follow *follow)
{
	struct conn *conn = follow->conn;
	struct err *err;

	follow->reused = follow->up_name[0] && !strcmp(follow->up_name, conn->name) &&
			 conn->out.fd >= 0 && !conn->out.hung_up;
	if (follow->reused) {
		if (!conn->verdict)
			judge_open_verdict(conn, false);
		conn->verdict->requests++;
		return OK;
	}
	tls_stream_free(take_ptr(follow->up.tls));
	stream_close(&conn->out);
	buf_clear(&follow->got_up);
	follow->up_name[0] = 0;
	judge_close_verdict(conn, NULL);
	TRY(charge(follow));
	err = judge_connect(conn);
	if (!err && conn->judged == JUDGED_INSPECT) {
		err = tls_stream_connect(&conn->out, conn->box->egress->trust, conn->name, DIAL_MS,
					 &follow->up.tls);
		if (err) {
			conn->verdict->connections = 0;
			judge_close_verdict(conn, err_reason(err));
		}
	}
	if (err) {
		budget_unrequest(&conn->box->budget);
		conn_return_place(conn);
		return err;
	}
	conn->place = PLACE_CONNECTED;
	conn->verdict->requests++;
	memcpy(follow->up_name, conn->name, sizeof(follow->up_name));
	return OK;
}

static fallible send_without_offer(struct follow *follow)
{
	auto_buf head = BUF_INIT(SECRETS_HEAD_MAX);

	secrets_write_request(&follow->secrets, &follow->request,
			      &(struct secrets_head){.no_offer = true}, &head);
	if (!buf_ok(&head))
		return err_new(TOO_LARGE, "bad_request", "the head is too large");
	buf_drop_front(&follow->got_in, follow->request.size);
	return egress_copy_pass(follow, BUDGET_OUT, head.at, head.len);
}

static fallible send_request(struct follow *follow)
{
	follow->body = body_of_request(&follow->request);
	follow->substituted = false;
	follow->websocket = is_websocket(&follow->request);
	// Any other upgrade offer is removed; servers may ignore offers.
	follow->no_offer = !follow->websocket &&
			   (follow->request.upgrade ||
			    http1_field(&follow->request, "upgrade").at ||
			    http1_field(&follow->request, "http2-settings").at);
	if (follow->secrets.count)
		return substitute_send(follow);
	if (follow->no_offer)
		return send_without_offer(follow);
	TRY(egress_copy_pass(follow, BUDGET_OUT, follow->got_in.at, follow->request.size));
	buf_drop_front(&follow->got_in, follow->request.size);
	return OK;
}

static void carry_body(void *arg)
{
	struct follow *follow = arg;
	auto_err err = follow->substituted ? substitute_body(follow)
					   : egress_copy_body(follow, &follow->body, BUDGET_OUT);

	follow->carrier = NULL;
	follow->body_done = !err;
	// Do not wait for a client that is gone or refused. A server that stops reading may still
	// reply.
	if (err && (follow->spent || !follow->conn->out.reset) && follow->conn->out.fd >= 0 &&
	    err_kind(err) != ERR_CANCELLED)
		shutdown(follow->conn->out.fd, SHUT_RD);
	condition_signal(&follow->carried);
}

static fallible egress_follow_exchange(struct follow *follow)
{
	struct err *err;

	follow->is_head = str_is(follow->request.method, "HEAD");
	follow->replied = false;
	follow->next = follow->request.keep_alive ? FOLLOW_ON : FOLLOW_LAST;
	TRY(send_request(follow));
	follow->body_done = follow->body.kind == BODY_NONE;
	if (!follow->body_done)
		follow->carrier = task_start(follow->conn->box->egress->loop, "egress.body",
					     carry_body, follow);
	err = relay_reply(follow);
	// A reply may arrive before the last bytes of its request are sent.
	if (!err && follow->carrier && follow->next != FOLLOW_LAST)
		err_free(condition_wait(&follow->carried, egress_copy_soon(follow, 1000)));
	if (follow->carrier)
		task_cancel(follow->carrier);
	while (follow->carrier)
		condition_await(&follow->carried);
	if (!follow->body_done && follow->next != FOLLOW_UPGRADED)
		follow->next = FOLLOW_LAST;
	return err;
}

// ---------------------------------------------------------------------------------- the verb

// The exchange is complete: record it, and let the client read to the end.
static void egress_follow_part(struct follow *follow)
{
	auto_err err = NULL;

	judge_close_verdict(follow->conn, NULL);
	if (follow->in.tls)
		err = tls_stream_end(follow->in.tls, HELLO_MS);
	if (!err)
		judge_part(follow->conn);
}

static void say_no(struct follow *follow, const char *reason)
{
	auto_buf reply = BUF_INIT(4096);
	auto_err err = NULL;

	judge_write_reply(follow->conn, reason, &reply);
	err = half_write(&follow->in, reply.at, reply.len, HELLO_MS);
	if (!err)
		egress_follow_part(follow);
}

static void deny(struct follow *follow, const char *reason)
{
	struct conn *conn = follow->conn;

	judge_note(conn, reason);
	conn_return_place(conn);
	say_no(follow, reason);
}

static void egress_follow_fail(struct follow *follow, const struct err *err)
{
	const char *reason = follow->spent			    ? follow->spent
			     : err_kind(err) == ERR_TIMEOUT	    ? "timeout"
			     : !strcmp(err_reason(err), "no_reply") ? "bad_reply"
								    : err_reason(err);

	if (follow->conn->verdict)
		verdict_set(follow->conn->verdict->reason, sizeof(follow->conn->verdict->reason),
			    reason);
	if (follow->replied) {
		follow->conn->cut = true;
		// An orderly close by the server after too few bytes is passed on as a close. Any
		// other early end is a reset.
		if (strcmp(err_reason(err), "cut_body") != 0)
			conn_abort(follow->conn);
	}
	if (err_kind(err) == ERR_CANCELLED || follow->replied)
		return;
	// Close as the server did: a client that reuses a connection expects that.
	if (follow->reused && !follow->spent && strcmp(err_reason(err), "bad_reply") != 0)
		return;
	say_no(follow, reason);
}

// True: go on with the next request.
static bool serve_one(struct follow *follow, bool first)
{
	const char *reason;
	bool over = false;
	auto_err err = egress_follow_read_request(follow, first, &over);

	if (over)
		return false;
	if (err && err_kind(err) == ERR_INVALID) {
		follow->conn->name[0] = 0;
		deny(follow, "bad_request");
	}
	if (err)
		return false;
	reason = judge_request(follow);
	if (reason) {
		deny(follow, reason);
		return false;
	}
	err = egress_follow_reach(follow);
	if (err) {
		follow->reused = follow->replied = false;
		egress_follow_fail(follow, err);
		return false;
	}
	err = egress_follow_exchange(follow);
	if (err) {
		egress_follow_fail(follow, err);
		return false;
	}
	if (follow->next == FOLLOW_LAST)
		egress_follow_part(follow);
	return follow->next == FOLLOW_ON;
}

// Bytes after the heads of an upgrade belong to the new protocol.
static fallible pass_rest(struct follow *follow)
{
	if (follow->got_up.len)
		TRY(egress_copy_pass(follow, BUDGET_IN, follow->got_up.at, follow->got_up.len));
	if (follow->got_in.len)
		TRY(egress_copy_pass(follow, BUDGET_OUT, follow->got_in.at, follow->got_in.len));
	return OK;
}

static void egress_follow_on_hangup(struct stream *stream)
{
	struct conn *conn = link_of(stream, struct conn, in);

	if (stream->reset && conn->out.fd >= 0)
		shutdown(conn->out.fd, SHUT_RDWR);
}

void follow_serve(struct conn *conn, struct half *half, bool *out_upgraded,
		  struct tls_stream **out_up_tls_stream)
{
	struct follow *follow = mem_new_of(struct follow);
	bool first = true;

	*out_upgraded = false;
	follow->conn = conn;
	follow->in = *half;
	follow->up.stream = &conn->out;
	follow->got_in = follow->got_up = BUF_INIT(EGRESS_COPY_ROOM + HTTP1_HEAD_MAX);
	follow->target_kind = conn->kind;
	memcpy(follow->target, conn->name, sizeof(follow->target));
	condition_init(&follow->carried);
	conn->in.on_hangup = egress_follow_on_hangup;
	while (serve_one(follow, first))
		first = false;
	if (follow->next == FOLLOW_UPGRADED) {
		auto_err err = pass_rest(follow);

		*out_upgraded = !err;
	}
	if (*out_upgraded)
		*out_up_tls_stream = take_ptr(follow->up.tls);
	conn->in.on_hangup = NULL;
	tls_stream_free(follow->up.tls);
	secrets_set_done(&follow->secrets);
	secret_buf_done(&follow->got_in);
	secret_buf_done(&follow->got_up);
	free(follow);
}

void follow_serve_plain(struct conn *conn)
{
	struct half half = {.stream = &conn->in};
	struct tls_stream *none = NULL;
	bool upgraded;

	follow_serve(conn, &half, &upgraded, &none);
	if (upgraded)
		err_free(conn_copy(conn));
}
