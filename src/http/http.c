// The transport-independent part of an exchange. It guarantees one reply, bodies within their
// limits, and header lines without CR or LF. http/transport moves the bytes.
#include "http/http.h"

#include "http/channel.h"
#include "http/transport.h"

#define SMALL 4096 // read into the arena at once
#define PIECE_MIN (16 * 1024)
#define PIECE_MAX (64 * 1024)

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

bool http_has_token(struct str list, struct str token)
{
	struct str word;

	while (list.len && str_cut(&list, ',', &word))
		if (str_eq_nocase(str_trim(word), token))
			return true;
	return false;
}

fallible http_too_large(uint64_t max)
{
	return err_hint(err_new(TOO_LARGE, "body_too_large", "the body is larger than %llu bytes",
				(unsigned long long)max),
			"send less, or use a route that takes a stream");
}

static fallible no_memory(void)
{
	return err_hint(err_new(UNAVAILABLE, "no_memory", "there is no memory for this"),
			"try again in a moment");
}

// Reads to the end, or until `ceiling` bytes were read. The buffer grows with the received bytes: a
// client that only announces a large body costs no memory.
static fallible http_gather(struct http *x, size_t ceiling, struct str *out)
{
	auto_buf whole = BUF_SECRET(ceiling);
	size_t n = 1;

	while (n > 0 && whole.len < ceiling) {
		size_t want = whole.len + PIECE_MIN;
		char *space;

		want = want < PIECE_MAX ? want : PIECE_MAX;
		want = want < ceiling - whole.len ? want : ceiling - whole.len;
		space = buf_space(&whole, want);
		if (!space)
			return no_memory();
		TRY(memory_quota_hold(&x->memory_quota, whole.room));
		TRY(http_read(x, space, want, &n));
		buf_grew(&whole, n);
	}
	*out = (struct str){arena_dup(x->arena, whole.at, whole.len), whole.len};
	return OK;
}

fallible http_read(struct http *x, void *room, size_t size, size_t *out)
{
	size_t n = 0;

	TRY(x->way->read(x, room, size, &n));
	x->body_left -= n < x->body_left ? n : x->body_left;
	*out = n;
	return OK;
}

bool http_length(const struct http *x, uint64_t *out)
{
	if (x->head.chunked || !x->head.has_length)
		return false;
	*out = x->head.length;
	return true;
}

static fallible body_of_chunks(struct http *x, size_t max, struct str *out)
{
	struct str whole = {0};

	TRY(http_gather(x, max + 1, &whole));
	if (whole.len > max)
		return http_too_large(max);
	*out = whole;
	return OK;
}

fallible http_body(struct http *x, size_t max, struct str *out)
{
	size_t len = x->body_left, at = 0, n = 1;
	char *room;

	if (max == 0)
		max = x->body_max;
	if (x->head.chunked)
		return body_of_chunks(x, max, out);
	if (len > max)
		return http_too_large(max);
	if (x->held.at && x->held.len == len) {
		x->body_left = 0;
		*out = x->held;
		return OK;
	}
	if (len > SMALL)
		return http_gather(x, len, out);
	room = arena_take(x->arena, len + 1);
	for (; at < len && n > 0; at += n)
		TRY(http_read(x, room + at, len - at, &n));
	*out = (struct str){room, at};
	return OK;
}

fallible http_recv_file(struct http *x, int fd, uint64_t max, uint64_t *out_len)
{
	TRY(x->way->recv_file(x, fd, max, out_len));
	x->body_left = 0;
	return OK;
}

void http_set(struct http *x, const char *name, struct str value)
{
	struct buf *extra = x->extra;
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

bool http_is_set(const struct http *x, const char *name)
{
	struct str rest = buf_view(x->extra), line;
	size_t len = strlen(name);

	while (rest.len && str_cut(&rest, '\n', &line))
		if (line.len > len && line.at[len] == ':' && !memcmp(line.at, name, len))
			return true;
	return false;
}

void http_answering(struct http *x)
{
	void (*answering)(struct http * x, void *arg) = take_ptr(x->answering);

	if (answering)
		answering(x, x->answering_arg);
}

static fallible http_begin_reply(struct http *x, int status)
{
	if (x->reply_begun)
		return err_new(INTERNAL, "replied_twice", "the request was already answered");
	x->reply_begun = true;
	x->status = status;
	http_answering(x);
	return OK;
}

fallible http_reply_as(struct http *x, int status, const char *type, struct str body)
{
	TRY(http_begin_reply(x, status));
	TRY(x->way->reply(x, transport_is_bodyless(status) ? NULL : type, body));
	x->reply_ended = true;
	return OK;
}

fallible http_reply(struct http *x, int status, const char *type, struct str body)
{
	return http_reply_as(x, status, !type && body.len > 0 ? "application/json" : type, body);
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

fallible http_begin_as(struct http *x, int status, const char *type, uint64_t length)
{
	TRY(http_begin_reply(x, status));
	return x->way->begin(x, type, length);
}

static fallible http_keep_alive(struct http *x, const char *type)
{
	if (type && x->way->keep_alive)
		x->way->keep_alive(x, type);
	return OK;
}

fallible http_begin(struct http *x, int status, const char *type)
{
	TRY(http_begin_as(x, status, type ? type : "application/json", TRANSPORT_UNSIZED));
	return http_keep_alive(x, type);
}

fallible http_begin_sized(struct http *x, int status, const char *type, uint64_t len)
{
	return http_begin_as(x, status, type ? type : "application/json", len);
}

fallible http_write(struct http *x, const void *bytes, size_t len)
{
	return x->way->write(x, bytes, len);
}

fallible http_send_file(struct http *x, int fd, uint64_t offset, uint64_t len)
{
	return x->way->send_file(x, fd, offset, len);
}

fallible http_end(struct http *x)
{
	if (x->reply_ended)
		return OK;
	TRY(x->way->end(x));
	x->reply_ended = true;
	return OK;
}

fallible http_begin_with(struct http *x, int status, const char *type, struct str bytes)
{
	if (!x->way->begin_with) {
		TRY(http_begin(x, status, type));
		return http_write(x, bytes.at, bytes.len);
	}
	TRY(http_begin_reply(x, status));
	TRY(x->way->begin_with(x, type ? type : "application/json", bytes));
	return http_keep_alive(x, type);
}

fallible http_end_with(struct http *x, struct str bytes)
{
	if (!x->way->end_with) {
		TRY(http_write(x, bytes.at, bytes.len));
		return http_end(x);
	}
	TRY(x->way->end_with(x, bytes));
	x->reply_ended = true;
	return OK;
}

void http_reset(struct http *x)
{
	if (x->conn && x->reply_begun)
		x->conn->stream.aborted = true;
}

void http_be_patient(struct http *x)
{
	x->way->be_patient(x);
}

fallible http_away(struct http *x, struct str probe)
{
	return x->way->away(x, probe);
}

void http_back(struct http *x)
{
	x->way->back(x);
}

bool http_peer_gone(struct http *x, struct str probe)
{
	return x->way->is_gone(x, probe);
}
