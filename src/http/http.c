// The exchange seen by a handler. The head of the reply is put together in one buffer and leaves
// with the body in one write. What decides whether the connection lives on is decided when that
// head is written: afterwards it would be too late to tell the client.
//
// A reply that fails on the way has no second chance: the connection is closed, and a chunked body
// without its end tells the client that it was cut.
#include "http/http.h"

#include <stdio.h>

#include "base/clock.h"
#include "http/channel.h"

#define DRAIN_MAX (64 * 1024)

struct str http_field(const struct http *x, const char *name)
{
	return http1_field(&x->head, name);
}

struct str http_query(struct http *x, const char *key)
{
	auto_buf value = BUF_INIT(HTTP1_HEAD_MAX);

	if (x->url.query.len == 0 || !url_query(x->url.query, key, &value) || !buf_ok(&value))
		return (struct str){NULL, 0};
	return (struct str){arena_dup(x->arena, value.at, value.len), value.len};
}

// The peer's slowness and absence are told by their own kinds: nobody here is to blame.
static fallible blame(struct http *x, struct err *err)
{
	x->conn->close_after = true;
	if (err && err_kind(err) == ERR_TIMEOUT)
		return err_recast(err, ERR_SLOW_CLIENT, "slow_client",
				  "no byte moved on the connection for too long");
	return err;
}

// The client asked whether it may send. Asking for the body is the answer.
static fallible invite(struct http *x)
{
	static const char words[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct http_conn *conn = x->conn;

	if (!conn->continue_due)
		return OK;
	conn->continue_due = false;
	if (x->reply_begun)
		return OK;
	return stream_write(&conn->stream, words, sizeof(words) - 1, conn->terms->silence_ms);
}

fallible http_read(struct http *x, void *room, size_t size, size_t *out)
{
	struct http_conn *conn = x->conn;
	struct err *err = invite(x);

	if (!err)
		err = inlet_read(&conn->papers->inlet, room, size, conn->terms->silence_ms, out);
	return err ? blame(x, err) : OK;
}

static fallible too_large(size_t max)
{
	return err_hint(
		err_new(TOO_LARGE, "body_too_large", "the body is larger than %zu bytes", max),
		"send less, or use a route that takes a stream");
}

static fallible no_memory(void)
{
	return err_hint(err_new(UNAVAILABLE, "no_memory", "there is no memory for this"),
			"try again in a moment");
}

static fallible body_of_length(struct http *x, size_t length, struct str *out)
{
	// Grown as it comes: a client that only announces a lot does not make us hold a lot.
	auto_buf whole = BUF_INIT(length);

	while (whole.len < length) {
		size_t want = length - whole.len, n = 0;
		char *space;

		if (want > 64 * 1024)
			want = 64 * 1024;
		space = buf_space(&whole, want);
		if (!space)
			return no_memory();
		TRY(http_read(x, space, want, &n));
		buf_grew(&whole, n);
	}
	*out = (struct str){arena_dup(x->arena, whole.at, length), length};
	return OK;
}

static fallible body_of_chunks(struct http *x, size_t max, struct str *out)
{
	auto_buf whole = BUF_INIT(max + 1);

	for (;;) {
		size_t want = max + 1 - whole.len, n = 0;
		char *space;

		if (want > 16 * 1024)
			want = 16 * 1024;
		space = buf_space(&whole, want);
		if (!space)
			return no_memory();
		TRY(http_read(x, space, want, &n));
		if (n == 0)
			break;
		buf_grew(&whole, n);
		if (whole.len > max)
			return too_large(max);
	}
	*out = (struct str){arena_dup(x->arena, whole.at, whole.len), whole.len};
	return OK;
}

fallible http_body(struct http *x, size_t max, struct str *out)
{
	struct inlet *inlet = &x->conn->papers->inlet;
	size_t n = 0;
	char *room;

	if (max == 0)
		max = x->conn->terms->body_max;
	if (inlet->framing == INLET_CHUNKED)
		return body_of_chunks(x, max, out);
	if (inlet->left > max)
		return too_large(max);
	if (inlet->left > 4096)
		return body_of_length(x, inlet->left, out);
	room = arena_take(x->arena, inlet->left + 1);
	for (size_t len = inlet->left, at = 0;; at += n) {
		if (at == len) {
			*out = (struct str){room, len};
			return OK;
		}
		TRY(http_read(x, room + at, len - at, &n));
	}
}

void http_set(struct http *x, const char *name, struct str value)
{
	struct buf *extra = &x->conn->papers->extra;

	size_t at;

	buf_text(extra, name);
	buf_add(extra, ": ", 2);
	at = extra->len;
	buf_str(extra, value);
	for (; at < extra->len; at++)
		if ((unsigned char)extra->at[at] < ' ')
			extra->at[at] = ' ';
	buf_add(extra, "\r\n", 2);
}

// "Sun, 06 Nov 1994 08:49:37 GMT", made once a second.
static const char *date(struct http_terms *terms)
{
	static const char days[] = "ThuFriSatSunMonTueWed"; // 1970 began on a Thursday
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	auto_buf iso = BUF_INIT(64);
	int64_t wall;
	int month;

	if (loop_now(terms->loop) < terms->date_until)
		return terms->date;
	wall = clock_wall_ms();
	clock_iso(wall, &iso); // 2026-11-15T02:09:45.123Z
	month = (iso.at[5] - '0') * 10 + iso.at[6] - '0';
	snprintf(terms->date, sizeof(terms->date), "%.3s, %.2s %.3s %.4s %.8s GMT",
		 days + wall / 86400000 % 7 * 3, iso.at + 8, months + (month - 1) * 3L, iso.at,
		 iso.at + 11);
	terms->date_until = loop_now(terms->loop) + 1000 - wall % 1000;
	return terms->date;
}

static void put_number(struct buf *out, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + n % 10);
	while (n /= 10);
	buf_add(out, digits + at, sizeof(digits) - at);
}

static bool wants_close(const struct http *x)
{
	const struct http_conn *conn = x->conn;
	const struct inlet *inlet = &conn->papers->inlet;

	if (conn->close_after || conn->terms->draining || !x->head.keep_alive)
		return true;
	// A body that nobody wants to read: a short one is skipped after the reply. One that the
	// client has not begun to send may come or not: only the end of the connection is clear.
	return !inlet->ended && (conn->continue_due || inlet->left > DRAIN_MAX);
}

enum framing { FRAMING_NONE, FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_TO_CLOSE };

static fallible put_head(struct http *x, int status, const char *type, enum framing framing,
			 uint64_t length)
{
	struct http_conn *conn = x->conn;
	struct buf *out = &conn->papers->head, *extra = &conn->papers->extra;

	conn->close_after = framing == FRAMING_TO_CLOSE || wants_close(x);
	buf_clear(out);
	buf_add(out, "HTTP/1.1 ", 9);
	put_number(out, (uint64_t)status);
	buf_char(out, ' ');
	buf_text(out, http1_status_text(status));
	buf_add(out, "\r\nDate: ", 8);
	buf_text(out, date(conn->terms));
	if (type) {
		buf_text(out, "\r\nContent-Type: ");
		buf_text(out, type);
	}
	if (framing == FRAMING_LENGTH) {
		buf_text(out, "\r\nContent-Length: ");
		put_number(out, length);
	} else if (framing == FRAMING_CHUNKED) {
		buf_text(out, "\r\nTransfer-Encoding: chunked");
	}
	if (conn->close_after)
		buf_text(out, "\r\nConnection: close");
	else if (x->head.minor == 0)
		buf_text(out, "\r\nConnection: keep-alive");
	buf_add(out, "\r\n", 2);
	if (buf_ok(extra))
		buf_str(out, buf_view(extra));
	buf_add(out, "\r\n", 2);
	if (buf_ok(out))
		return OK;
	conn->close_after = true; // half a head would lie: the client gets none
	return no_memory();
}

static bool is_bodyless(int status)
{
	return status < 200 || status == 204 || status == 304;
}

static fallible begin(struct http *x, int status)
{
	if (x->reply_begun)
		return err_new(INTERNAL, "replied_twice", "the request was already answered");
	x->reply_begun = true;
	x->status = status;
	x->conn->no_body = is_bodyless(status) || str_is(x->head.method, "HEAD");
	return OK;
}

fallible http_reply(struct http *x, int status, const char *type, struct str body)
{
	struct http_conn *conn = x->conn;
	struct iovec parts[2];
	struct err *err;

	TRY(begin(x, status));
	if (!type && body.len > 0)
		type = "application/json";
	TRY(put_head(x, status, is_bodyless(status) ? NULL : type,
		     is_bodyless(status) ? FRAMING_NONE : FRAMING_LENGTH, body.len));
	if (conn->no_body)
		body.len = 0;
	parts[0] = (struct iovec){conn->papers->head.at, conn->papers->head.len};
	parts[1] = (struct iovec){(void *)body.at, body.len};
	err = stream_writev(&conn->stream, parts, body.len ? 2 : 1, conn->silence_ms);
	if (err)
		return blame(x, err);
	x->bytes_out += body.len;
	x->reply_ended = true;
	return OK;
}

fallible http_reply_json(struct http *x, int status, const struct buf *body)
{
	if (!buf_ok(body))
		return no_memory();
	return http_reply(x, status, NULL, buf_view(body));
}

fallible http_reply_empty(struct http *x, int status)
{
	return http_reply(x, status, NULL, (struct str){NULL, 0});
}

fallible http_begin(struct http *x, int status, const char *type)
{
	struct http_conn *conn = x->conn;
	bool is_old = x->head.minor == 0;
	struct err *err;

	TRY(begin(x, status));
	conn->chunked = !is_old;
	TRY(put_head(x, status, type ? type : "application/json",
		     is_bodyless(status) ? FRAMING_NONE
		     : is_old		 ? FRAMING_TO_CLOSE
					 : FRAMING_CHUNKED,
		     0));
	err = stream_write(&conn->stream, conn->papers->head.at, conn->papers->head.len,
			   conn->silence_ms);
	return err ? blame(x, err) : OK;
}

fallible http_write(struct http *x, const void *bytes, size_t len)
{
	struct http_conn *conn = x->conn;
	char *size_line = conn->papers->chunk;
	struct iovec parts[3];
	struct err *err;

	if (len == 0 || conn->no_body)
		return OK;
	if (conn->chunked) {
		int n = snprintf(size_line, sizeof(conn->papers->chunk), "%zx\r\n", len);

		parts[0] = (struct iovec){size_line, (size_t)n};
		parts[1] = (struct iovec){(void *)bytes, len};
		parts[2] = (struct iovec){(void *)"\r\n", 2};
		err = stream_writev(&conn->stream, parts, 3, conn->silence_ms);
	} else {
		err = stream_write(&conn->stream, bytes, len, conn->silence_ms);
	}
	if (err)
		return blame(x, err);
	x->bytes_out += len;
	return OK;
}

fallible http_end(struct http *x)
{
	struct http_conn *conn = x->conn;
	struct err *err = OK;

	if (x->reply_ended)
		return OK;
	if (conn->chunked && !conn->no_body)
		err = stream_write(&conn->stream, "0\r\n\r\n", 5, conn->silence_ms);
	if (err)
		return blame(x, err);
	x->reply_ended = true;
	return OK;
}
