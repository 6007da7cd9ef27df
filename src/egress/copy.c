// Heads and bodies of a followed connection on their way. Bytes are counted in the budget before
// they are sent. A body passes unchanged, or with secrets substituted: a short body is changed as a
// whole and gets its new length; a longer one is changed in pieces and sent in chunks, if the other
// side can. The end of a piece that may be the beginning of a match stays for the next piece. The
// end of a stream within a body is an error unless the close ends the body.
//
// got ──(body_take)──▶ data ──(secrets_substitute, secrets_mask)──▶ out ──▶ the other side
#include <stdio.h>

#include "base/auto.h"
#include "egress/follow.h"

#define WHOLE_MAX EGRESS_COPY_ROOM	   // larger bodies are changed in pieces
#define WHOLE_MS 300000			   // to receive a whole body
#define OUT_MAX (4 * SECRETS_PIECE)	   // includes what a substitution may add
#define FRAME (sizeof("00000000\r\n") - 1) // before each chunk

// ------------------------------------------------------------------------------------- framing

struct body body_of_request(const struct http1_head *head)
{
	if (head->chunked)
		return (struct body){.kind = BODY_CHUNKED};
	if (head->has_length && head->length)
		return (struct body){.kind = BODY_LENGTH, .left = head->length};
	return (struct body){.kind = BODY_NONE};
}

struct body body_of_reply(const struct http1_head *head, bool to_head)
{
	if (to_head || head->status == 204 || head->status == 304)
		return (struct body){.kind = BODY_NONE};
	if (head->chunked)
		return (struct body){.kind = BODY_CHUNKED};
	if (head->has_length)
		return (struct body){.kind = head->length ? BODY_LENGTH : BODY_NONE,
				     .left = head->length};
	return (struct body){.kind = BODY_CLOSE};
}

static fallible body_take_chunks(struct body *body, struct str in, struct buf *out,
				 size_t *out_used, bool *out_done)
{
	enum http1_verdict verdict = HTTP1_MORE;
	size_t all = 0;

	while (verdict == HTTP1_MORE && all < in.len) {
		struct str data;
		size_t used = 0;

		verdict = http1_unchunk(&body->chunks, str_skip(in, all), &data, &used);
		if (out)
			buf_str(out, data);
		all += used;
		if (!used)
			break;
	}
	*out_used = all;
	*out_done = verdict == HTTP1_DONE;
	if (verdict == HTTP1_MORE || verdict == HTTP1_DONE)
		return OK;
	return err_new(BAD_PEER, "bad_body", "the chunks of a body are malformed");
}

// How many bytes of `in` belong to the body, framing included. *out_done: the body ends there.
// BAD_PEER bad_body.
static fallible body_measure(struct body *body, struct str in, size_t *out_used, bool *out_done)
{
	switch (body->kind) {
	case BODY_NONE:
		*out_used = 0;
		*out_done = true;
		return OK;
	case BODY_LENGTH:
		*out_used = in.len < body->left ? in.len : (size_t)body->left;
		body->left -= *out_used;
		*out_done = !body->left;
		return OK;
	case BODY_CLOSE:
		*out_used = in.len;
		*out_done = false;
		return OK;
	case BODY_CHUNKED:
		break;
	}
	return body_take_chunks(body, in, NULL, out_used, out_done);
}

// The same, and adds the content without framing to `out`. Trailers are dropped.
static fallible body_take(struct body *body, struct str in, struct buf *out, size_t *out_used,
			  bool *out_done)
{
	if (body->kind == BODY_CHUNKED)
		return body_take_chunks(body, in, out, out_used, out_done);
	TRY(body_measure(body, in, out_used, out_done));
	buf_add(out, in.at, *out_used);
	return OK;
}

// ------------------------------------------------------------------------------------- copying

int64_t egress_copy_soon(const struct follow *follow, int64_t ms)
{
	return loop_now(follow->conn->box->egress->loop) + ms;
}

fallible egress_copy_pass(struct follow *follow, enum budget_way way, const char *bytes, size_t len)
{
	struct half *to = way == BUDGET_OUT ? &follow->up : &follow->in;
	size_t granted = conn_grant(follow->conn, way, len);

	conn_moved(follow->conn, way, granted, 0);
	if (granted)
		TRY(half_write(to, bytes, granted, IDLE_MS));
	if (granted == len)
		return OK;
	follow->spent = budget_reason(way == BUDGET_OUT ? BUDGET_BYTES_OUT : BUDGET_BYTES_IN);
	return err_new(EXHAUSTED, "budget_bytes", "the byte budget is used up");
}

fallible egress_copy_more(struct half *half, struct buf *got, size_t room, int64_t deadline,
			  size_t *out)
{
	size_t most = room > EGRESS_COPY_ROOM ? room : EGRESS_COPY_ROOM;
	size_t size = got->len < most ? most - got->len : 0;
	char *at = size ? buf_space(got, size) : NULL;

	if (!at)
		return err_new(TOO_LARGE, "too_large", "the message is too large to buffer");
	TRY(half_read(half, at, size, deadline, out));
	buf_grew(got, *out);
	return OK;
}

// The stream ended within `body`. OK if the close ends the body; BAD_PEER cut_body: bytes are
// missing, or TLS ended without a close_notify.
static fallible egress_copy_end(const struct half *from, const struct body *body)
{
	if (body->kind == BODY_CLOSE && !(from->tls && tls_stream_is_cut(from->tls)))
		return OK;
	return err_new(BAD_PEER, "cut_body", "the body ended too early");
}

fallible egress_copy_body(struct follow *follow, struct body *body, enum budget_way way)
{
	struct half *from = way == BUDGET_OUT ? &follow->in : &follow->up;
	struct buf *got = way == BUDGET_OUT ? &follow->got_in : &follow->got_up;

	for (;;) {
		bool done = false;
		size_t used = 0, n = 0;

		TRY(body_measure(body, buf_view(got), &used, &done));
		if (used)
			TRY(egress_copy_pass(follow, way, got->at, used));
		buf_drop_front(got, used);
		if (done)
			return OK;
		TRY(egress_copy_more(from, got, 0, egress_copy_soon(follow, IDLE_MS), &n));
		if (!n)
			return egress_copy_end(from, body);
	}
}

// ---------------------------------------------------------------------------------- substitution

// `out` has room for the chunk header at its front.
static fallible pass_piece(struct follow *follow, enum budget_way way, bool chunked,
			   struct buf *out)
{
	char frame[FRAME + 1];

	if (!buf_ok(out))
		return err_new(TOO_LARGE, "too_large", "a piece of a body has grown too large");
	if (out->len == FRAME)
		return OK;
	if (!chunked)
		return egress_copy_pass(follow, way, out->at + FRAME, out->len - FRAME);
	snprintf(frame, sizeof(frame), "%08x\r\n", (unsigned)(out->len - FRAME));
	memcpy(out->at, frame, FRAME);
	buf_text(out, "\r\n");
	return buf_ok(out) ? egress_copy_pass(follow, way, out->at, out->len)
			   : err_new(TOO_LARGE, "too_large", "a piece has grown too large");
}

// Passes on all of `data` that is decidable.
static fallible pass_changed(struct follow *follow, enum budget_way way, bool chunked,
			     struct buf *data, bool is_end)
{
	size_t used;

	do {
		auto_secret_buf out = BUF_SECRET(OUT_MAX);

		buf_add(&out, "00000000\r\n", FRAME);
		used = way == BUDGET_OUT
			       ? secrets_substitute(&follow->secrets, buf_view(data), is_end, &out)
			       : secrets_mask(&follow->secrets, buf_view(data), is_end, &out);
		buf_drop_front(data, used);
		TRY(pass_piece(follow, way, chunked, &out));
	} while (used && data->len);
	return OK;
}

static fallible stream_body(struct follow *follow, struct body *body, enum budget_way way,
			    bool chunked)
{
	struct half *from = way == BUDGET_OUT ? &follow->in : &follow->up;
	struct buf *got = way == BUDGET_OUT ? &follow->got_in : &follow->got_up;
	auto_secret_buf data = BUF_SECRET(2 * EGRESS_COPY_ROOM);
	bool done = false;

	for (;;) {
		size_t used = 0, n = 0;

		TRY(body_take(body, buf_view(got), &data, &used, &done));
		buf_drop_front(got, used);
		if (!buf_ok(&data))
			return err_new(TOO_LARGE, "too_large", "a piece of a body is too large");
		TRY(pass_changed(follow, way, chunked, &data, done));
		if (done)
			break;
		TRY(egress_copy_more(from, got, 0, egress_copy_soon(follow, IDLE_MS), &n));
		if (n)
			continue;
		TRY(pass_changed(follow, way, chunked, &data, true));
		TRY(egress_copy_end(from, body));
		break;
	}
	return chunked ? egress_copy_pass(follow, way, "0\r\n\r\n", 5) : OK;
}

// Reads head and body into `got`, with one deadline for all of it.
static fallible read_whole(struct follow *follow, struct half *from, struct buf *got, size_t size)
{
	int64_t deadline = egress_copy_soon(follow, WHOLE_MS);

	while (got->len < size) {
		size_t n = 0;

		TRY(egress_copy_more(from, got, size, deadline, &n));
		if (!n)
			return err_new(BAD_PEER, "cut_body", "the body ended too early");
	}
	return OK;
}

static fallible pass_head(struct follow *follow, enum budget_way way, struct buf *head)
{
	if (!buf_ok(head))
		return err_new(TOO_LARGE, way == BUDGET_OUT ? "bad_request" : "bad_reply",
			       "the head is too large");
	return egress_copy_pass(follow, way, head->at, head->len);
}

// ----------------------------------------------------------------------------------- the request

// The beginning of a body of known length, with the values. A body that fits gets its new length
// and is sent with the head. Of longer ones only those with a placeholder at their beginning are
// sent in chunks, which not every server accepts.
static fallible substitute_begin(struct follow *follow, struct secrets_head *how, struct buf *out)
{
	struct buf *got = &follow->got_in;
	size_t size = follow->request.size, used;
	bool is_end = follow->body.left <= WHOLE_MAX;
	struct str body = {.len = is_end ? (size_t)follow->body.left : WHOLE_MAX};

	TRY(read_whole(follow, &follow->in, got, size + body.len));
	// The buffer may have moved: parse again for valid slices.
	if (http1_request(buf_view(got), &follow->request) != HTTP1_DONE)
		return err_new(INVALID, "bad_request", "the request is malformed");
	body.at = got->at + size;
	used = secrets_substitute(&follow->secrets, body, is_end, out);
	if (is_end && used == body.len && buf_ok(out)) {
		how->framing = SECRETS_LENGTH;
		how->length = out->len;
	} else if (!str_eq(body, buf_view(out)) && follow->request.minor == 1) {
		how->framing = SECRETS_CHUNKED;
	}
	return OK;
}

fallible substitute_send(struct follow *follow)
{
	auto_secret_buf head = BUF_SECRET(SECRETS_HEAD_MAX), out = BUF_SECRET(OUT_MAX);
	struct secrets_head how = {.identity = true, .no_offer = follow->no_offer};

	if (follow->body.kind == BODY_CHUNKED)
		how.framing = SECRETS_CHUNKED;
	// A client that expects a 100 has not sent the body yet.
	else if (follow->body.kind == BODY_LENGTH && !follow->request.expect_continue)
		TRY(substitute_begin(follow, &how, &out));
	follow->substituted = how.framing == SECRETS_CHUNKED;
	secrets_write_request(&follow->secrets, &follow->request, &how, &head);
	buf_drop_front(&follow->got_in, follow->request.size);
	TRY(pass_head(follow, BUDGET_OUT, &head));
	if (how.framing != SECRETS_LENGTH)
		return OK;
	buf_drop_front(&follow->got_in, (size_t)follow->body.left);
	follow->body = (struct body){.kind = BODY_NONE};
	return egress_copy_pass(follow, BUDGET_OUT, out.at, out.len);
}

fallible substitute_body(struct follow *follow)
{
	return stream_body(follow, &follow->body, BUDGET_OUT, true);
}

// ------------------------------------------------------------------------------------- the reply

static fallible reply_whole(struct follow *follow, size_t length, bool *out_fits)
{
	auto_secret_buf head = BUF_SECRET(SECRETS_HEAD_MAX), out = BUF_SECRET(OUT_MAX);
	struct buf *got = &follow->got_up;
	size_t size = follow->reply.size;
	struct secrets_head how = {.framing = SECRETS_LENGTH};
	struct str body;

	TRY(read_whole(follow, &follow->up, got, size + length));
	if (http1_reply(buf_view(got), &follow->reply) != HTTP1_DONE)
		return err_new(BAD_PEER, "bad_reply", "the server's reply is malformed");
	body = (struct str){got->at + size, length};
	*out_fits = secrets_mask(&follow->secrets, body, true, &out) == length && buf_ok(&out);
	if (!*out_fits)
		return OK;
	how.length = out.len;
	secrets_write_reply(&follow->secrets, &follow->reply, got->at, &how, &head);
	buf_drop_front(got, size + length);
	follow->replied = true;
	TRY(pass_head(follow, BUDGET_IN, &head));
	return egress_copy_pass(follow, BUDGET_IN, out.at, out.len);
}

fallible substitute_reply(struct follow *follow, struct body *body)
{
	auto_secret_buf head = BUF_SECRET(SECRETS_HEAD_MAX);
	bool chunks = follow->request.minor == 1 && follow->reply.minor == 1;
	struct secrets_head how = {.framing = SECRETS_AS_IS};
	bool fits = false;

	if (body->kind == BODY_LENGTH && body->left <= WHOLE_MAX)
		TRY(reply_whole(follow, (size_t)body->left, &fits));
	if (fits)
		return OK;
	if (body->kind == BODY_LENGTH || body->kind == BODY_CHUNKED)
		how.framing = chunks ? SECRETS_CHUNKED : SECRETS_CLOSE;
	if (how.framing == SECRETS_CLOSE)
		follow->next = FOLLOW_LAST;
	secrets_write_reply(&follow->secrets, &follow->reply, follow->got_up.at, &how, &head);
	buf_drop_front(&follow->got_up, follow->reply.size);
	follow->replied |= follow->reply.status >= 200 || follow->reply.status == 101;
	TRY(pass_head(follow, BUDGET_IN, &head));
	if (follow->reply.status < 200 || body->kind == BODY_NONE)
		return OK;
	return stream_body(follow, body, BUDGET_IN, how.framing == SECRETS_CHUNKED);
}
