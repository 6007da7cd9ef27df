// Waits, reads a head, has it served, skips the rest of its body, and repeats. Between two requests
// the next bytes are waited for before a read is tried, so a kept connection costs one wait, one
// read and one write per request.
//
// The last answer must reach a client that is still sending: closing a socket with unread bytes
// makes the kernel send RST, which may overtake the answer. So our half is closed first, and input
// is read and discarded for a while.
//
// syscalls: shutdown
#include "http/conn.h"

#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "http/transport.h"

#define SPARE_MAX 16
#define REPLY_HEAD_MAX (64 * 1024) // the head of a relayed reply is the server's
#define HEAD_KEPT 4096

// Attaches a context to a connection when a request begins. Up to SPARE_MAX contexts are kept for
// reuse; one whose buffers grew large is freed instead.
static void request_context_attach(struct http_conn *conn)
{
	struct http_terms *terms = conn->terms;
	struct request_context *context;

	if (link_empty(&terms->spare)) {
		context = mem_new_of(struct request_context);
		context->x.arena = arena_new();
		context->buffers.head = BUF_INIT(REPLY_HEAD_MAX);
		context->buffers.extra = BUF_INIT(REPLY_HEAD_MAX / 2);
	} else {
		context = link_of(terms->spare.next, struct request_context, link);
		link_drop(&context->link);
		terms->spare_count--;
	}
	context->buffers.body_reader.stream = &conn->stream;
	conn->context = context;
	conn->buffers = &context->buffers;
}

static void request_context_free(struct request_context *context)
{
	arena_free(context->x.arena);
	body_reader_done(&context->buffers.body_reader);
	buf_done(&context->buffers.head);
	buf_done(&context->buffers.extra);
	free(context);
}

// Takes it back when the connection is idle; no effect without one.
static void request_context_release(struct http_conn *conn)
{
	struct http_terms *terms = conn->terms;
	struct request_context *context = take_ptr(conn->context);

	if (!context)
		return;
	conn->buffers = NULL;
	memory_quota_drop(&context->x.memory_quota);
	if (terms->spare_count >= SPARE_MAX ||
	    context->buffers.head.room + context->buffers.extra.room > HEAD_KEPT) {
		request_context_free(context);
		return;
	}
	arena_reset(context->x.arena);
	body_reader_reset(&context->buffers.body_reader);
	link_push(&terms->spare, &context->link);
	terms->spare_count++;
}

void request_context_close(struct http_terms *terms)
{
	list_each (at, &terms->spare)
		request_context_free(link_of(at, struct request_context, link));
	link_init(&terms->spare);
	terms->spare_count = 0;
}

#define DRAIN_MAX (64 * 1024)
#define DRAIN_MS 5000
#define LINGER_MS 3000
#define LINGER_MAX (256 * 1024 * 1024)
#define STREAK_MAX 16
#define TRACE_MAX 64

// A counter, scrambled by a bijection (splitmix64): unique, hard enough to guess for a log, and
// without a system call.
static void give_id(struct http_terms *terms, char out[17])
{
	static const char hex[] = "0123456789abcdef";
	uint64_t id;

	if (!terms->id_key)
		secret_random(&terms->id_key, sizeof(terms->id_key));
	id = terms->id_key + ++terms->id_next * 0x9e3779b97f4a7c15;
	id = (id ^ id >> 30) * 0xbf58476d1ce4e5b9;
	id = (id ^ id >> 27) * 0x94d049bb133111eb;
	id ^= id >> 31;
	for (int i = 0; i < 16; i++)
		out[i] = hex[id >> (60 - 4 * i) & 15];
	out[16] = 0;
}

static bool is_trace(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		      c == '-' || c == '_' || c == '.'))
			return false;
	}
	return s.len > 0 && s.len <= TRACE_MAX;
}

// X-Trace-Id, or the trace part of a traceparent (00-TRACE-SPAN-FLAGS), or our own id.
static struct str find_trace(const struct http *x)
{
	struct str given = http_field(x, "X-Trace-Id");

	if (given.at && is_trace(given))
		return given;
	given = http_field(x, "traceparent");
	if (given.len == 55 && given.at[2] == '-' && given.at[35] == '-') {
		given = (struct str){given.at + 3, 32};
		if (is_trace(given))
			return given;
	}
	return (struct str){x->id, 16};
}

static void clear_exchange(struct http_conn *conn)
{
	struct http *x = &conn->context->x;

	arena_reset(x->arena);
	memory_quota_drop(&x->memory_quota);
	x->memory_quota.share = NULL;
	buf_clear(&conn->buffers->extra);
	x->way = &socket_transport_way;
	x->conn = conn;
	x->extra = &conn->buffers->extra;
	x->body_max = conn->terms->body_max;
	x->body_left = 0;
	x->held = (struct str){NULL, 0};
	x->url = (struct url){0};
	for (int i = 0; i < HTTP_PARAMS_MAX; i++)
		x->params[i] = (struct str){NULL, 0};
	x->route = NULL;
	x->principal = NULL;
	x->answering = NULL;
	x->peer = str_of(conn->peer);
	x->uid = conn->uid;
	x->app = conn->terms->app;
	x->status = 0;
	x->bytes_out = 0;
	x->reply_begun = x->reply_ended = x->feed = false;
	conn->stream.aborted = false;
	conn->no_body = conn->chunked = conn->continue_due = conn->probed = false;
	conn->sized = false;
	conn->due = 0;
	conn->silence_ms = conn->terms->silence_ms;
	conn->absent = NULL;
	give_id(conn->terms, x->id);
	x->trace = (struct str){x->id, 16};
}

// Answers a head that could not be parsed.
static void conn_refuse(struct http_conn *conn, const struct conn_calls *calls, struct err *err)
{
	struct http *x = &conn->context->x;

	// The parts parsed before the fault cannot be trusted.
	x->head.method = x->head.target = (struct str){NULL, 0};
	x->head.field_count = 0;
	x->head.minor = 1;
	x->head.keep_alive = x->head.chunked = x->head.has_length = false;
	body_reader_frame(&conn->buffers->body_reader, BODY_READER_NONE, 0);
	conn->close_after = true;
	// A slow sender has no unread bytes in flight that would cause a reset.
	conn->linger = err_kind(err) != ERR_SLOW_CLIENT;
	calls->refuse(x, err);
}

// Reads a head into the exchange; false: the connection is over.
static bool conn_read_request(struct http_conn *conn, const struct conn_calls *calls)
{
	struct http *x = &conn->context->x;
	struct body_reader *body_reader = &conn->buffers->body_reader;
	enum http1_verdict verdict = HTTP1_MORE;
	auto_err err = body_reader_head(body_reader, http1_request,
					loop_now(conn->terms->loop) + conn->terms->head_ms,
					&x->head, &verdict);

	if (err && err_kind(err) == ERR_TIMEOUT && body_reader_has_bytes(body_reader)) {
		conn_refuse(
			conn, calls,
			err_new(SLOW_CLIENT, "slow_head", "the head of the request took too long"));
		return false;
	}
	if (err || verdict == HTTP1_MORE)
		return false;
	if (verdict == HTTP1_TOO_LARGE) {
		conn_refuse(conn, calls,
			    err_hint(err_new(HEAD_TOO_LARGE, "head_too_large",
					     "the head of the request is too large"),
				     "at most %d bytes and %d fields", HTTP1_HEAD_MAX,
				     HTTP1_FIELDS_MAX));
		return false;
	}
	if (verdict == HTTP1_BAD) {
		conn_refuse(conn, calls,
			    err_new(INVALID, "bad_request", "%s",
				    x->head.fault ? x->head.fault : "the request is malformed"));
		return false;
	}
	if (!url_target(x->head.target, &x->url)) {
		conn_refuse(
			conn, calls,
			err_hint(err_new(INVALID, "bad_target", "the request target is malformed"),
				 "it is a path that starts with a slash"));
		return false;
	}
	return true;
}

static void conn_frame(struct http_conn *conn)
{
	struct http *x = &conn->context->x;
	const struct http1_head *head = &x->head;
	struct body_reader *body_reader = &conn->buffers->body_reader;

	if (head->chunked)
		body_reader_frame(body_reader, BODY_READER_CHUNKED, 0);
	else
		body_reader_frame(body_reader,
				  head->has_length ? BODY_READER_LENGTH : BODY_READER_NONE,
				  head->length);
	x->body_left = head->has_length ? head->length : 0;
	conn->continue_due = head->expect_continue && !body_reader->ended &&
			     !body_reader_has_bytes(body_reader);
}

// Skips the rest of the body, if it is short and arrives soon.
static bool drain_body(struct http_conn *conn)
{
	struct body_reader *body_reader = &conn->buffers->body_reader;
	int64_t deadline = loop_now(conn->terms->loop) + DRAIN_MS;
	char trash[2048];

	for (size_t total = 0, n = 0; !body_reader->ended; total += n) {
		int64_t left = deadline - loop_now(conn->terms->loop);
		auto_err err = NULL;

		if (total > DRAIN_MAX || left <= 0)
			return false;
		err = body_reader_read(body_reader, trash, sizeof(trash), left, &n);
		if (err)
			return false;
	}
	return true;
}

// Serves one request; true: the connection stays open.
static bool conn_exchange(struct http_conn *conn, const struct conn_calls *calls)
{
	struct http *x = &conn->context->x;

	clear_exchange(conn);
	if (!conn_read_request(conn, calls))
		return false;
	x->trace = find_trace(x);
	conn_frame(conn);
	calls->phase(conn, CONN_SERVING);
	calls->serve(x);
	conn->keepalive = NULL;
	if (conn->quiet.at)
		loop_drop_timer(conn->stream.loop, &conn->quiet);
	conn->served_one = true;
	if (!x->reply_begun) {
		conn->close_after = true;
		err_free(http_reply(x, 500, NULL,
				    STR("{\"code\":\"internal\",\"message\":\"no answer\"}")));
	}
	if (!x->reply_ended)
		return false;
	if (!conn->buffers->body_reader.ended)
		calls->phase(conn, CONN_ENDING);
	if (conn->close_after || (!conn->buffers->body_reader.ended && !drain_body(conn))) {
		conn->linger = !conn->buffers->body_reader.ended ||
			       body_reader_has_bytes(&conn->buffers->body_reader) ||
			       conn->stream.readable;
		return false;
	}
	body_reader_next(&conn->buffers->body_reader);
	return true;
}

static int64_t patience_of(const struct http_conn *conn)
{
	if (conn->served_one)
		return conn->terms->idle_ms;
	return conn->terms->draining ? CONN_FIRST_MS : conn->terms->head_ms;
}

// Waits for the next request; false: none came.
static bool conn_await(struct http_conn *conn, const struct conn_calls *calls)
{
	struct http_terms *terms = conn->terms;
	auto_err err = NULL;
	int64_t deadline;
	bool empty = true;

	if (conn->context && body_reader_has_bytes(&conn->buffers->body_reader)) {
		calls->phase(conn, CONN_READING);
		// A long pipeline yields now and then, for fairness to other connections.
		if (++conn->streak % STREAK_MAX == 0)
			err = task_sleep_until(0);
		return !err;
	}
	if (terms->draining && conn->served_one)
		return false;
	conn->streak = 0;
	deadline = loop_now(terms->loop) + patience_of(conn);
	// Idle until a byte has really arrived: a wake-up may be about bytes that were already
	// read, and the time limit of a head starts with its first byte.
	while (!err && empty) {
		request_context_release(conn);
		calls->phase(conn, CONN_WAITING);
		err = stream_wait_readable(&conn->stream, deadline);
		calls->phase(conn, CONN_READING);
		if (err)
			break;
		request_context_attach(conn);
		err = body_reader_fill(&conn->buffers->body_reader, &empty);
	}
	return !err && body_reader_has_bytes(&conn->buffers->body_reader);
}

static void conn_linger(struct http_conn *conn)
{
	int64_t deadline = loop_now(conn->terms->loop) + LINGER_MS;
	char trash[2048];

	shutdown(conn->stream.fd, SHUT_WR);
	for (size_t total = 0, n = 1; n > 0 && total < LINGER_MAX; total += n) {
		n = 0;
		if (loop_now(conn->terms->loop) < deadline)
			err_free(stream_read(&conn->stream, trash, sizeof(trash), deadline, &n));
	}
}

void conn_run(struct http_conn *conn, const struct conn_calls *calls)
{
	while (conn_await(conn, calls) && conn_exchange(conn, calls))
		;
	if (conn->linger && !conn->stream.aborted) {
		calls->phase(conn, CONN_ENDING);
		conn_linger(conn);
	}
	request_context_release(conn);
	stream_close(&conn->stream);
}
