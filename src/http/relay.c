// One request, one reply, then the connection is closed: no state is shared between two requests,
// so nothing of one can end up in another. The server is hostile: its head is read by the same
// strict grammar as ours, and its framing is not passed on but made anew.
#include "http/relay.h"

#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "http/inlet.h"

#define HEAD_MAX (64 * 1024)
#define FIELDS_MAX (6 * 1024) // of the reply: what a head of ours holds beside its own
#define PIECE (32 * 1024)
#define SILENCE_MS 60000

struct relay {
	struct http *x;
	const struct relay_way *way;
	struct stream stream;
	struct inlet inlet;
	struct http1_head *head;
	bool early; // the server has answered before it read all
};

static void relay_end(struct relay *relay)
{
	stream_close(&relay->stream);
	inlet_done(&relay->inlet);
}

static bool is_among(struct str name, const char *const *list)
{
	for (; *list; list++)
		if (str_eq_nocase(name, str_of(*list)))
			return true;
	return false;
}

// RFC 9110, 7.6.1: what is named in Connection goes no further, either.
static bool is_named(const struct http1_head *head, struct str name)
{
	struct str token;

	for (size_t i = 0; i < head->field_count; i++) {
		struct str list = head->fields[i].value;

		if (!str_eq_nocase(head->fields[i].name, STR("Connection")))
			continue;
		while (list.len && str_cut(&list, ',', &token))
			if (str_eq_nocase(str_trim(token), name))
				return true;
	}
	return false;
}

static bool stays(const struct http1_head *head, struct str name)
{
	static const char *const hops[] = {"Connection",
					   "Keep-Alive",
					   "Proxy-Authenticate",
					   "Proxy-Authorization",
					   "Proxy-Connection",
					   "TE",
					   "Trailer",
					   "Transfer-Encoding",
					   "Upgrade",
					   "Content-Length",
					   "Host",
					   "Expect",
					   NULL};

	return is_among(name, hops) || is_named(head, name);
}

static fallible send_head(struct relay *relay)
{
	const struct http *x = relay->x;
	const struct relay_way *way = relay->way;
	auto_buf out = BUF_INIT(HEAD_MAX);
	uint64_t len;

	buf_fmt(&out, STR_FMT " " STR_FMT, STR_ARG(x->head.method), STR_ARG(way->path));
	if (x->url.query.at && x->url.query.len)
		buf_fmt(&out, "?" STR_FMT, STR_ARG(x->url.query));
	buf_fmt(&out, " HTTP/1.1\r\nHost: " STR_FMT "\r\n", STR_ARG(way->host));
	for (size_t i = 0; i < x->head.field_count; i++) {
		struct http1_field field = x->head.fields[i];

		if (stays(&x->head, field.name) ||
		    (!way->keep_bearer && str_eq_nocase(field.name, STR("Authorization"))))
			continue;
		buf_fmt(&out, STR_FMT ": " STR_FMT "\r\n", STR_ARG(field.name),
			STR_ARG(field.value));
	}
	if (x->head.chunked)
		buf_text(&out, "Transfer-Encoding: chunked\r\n");
	else if (http_length(x, &len))
		buf_fmt(&out, "Content-Length: %llu\r\n", (unsigned long long)len);
	buf_text(&out, "Connection: close\r\n\r\n");
	if (!buf_ok(&out))
		return err_new(HEAD_TOO_LARGE, "head_too_large", "the head is too large");
	return stream_write(&relay->stream, out.at, out.len, SILENCE_MS);
}

// All of it, unless the server speaks first: then it wants no more.
static fallible offer(struct relay *relay, const char *at, size_t len)
{
	while (len > 0 && !relay->early) {
		int64_t deadline = loop_now(relay->way->loop) + SILENCE_MS;
		struct err *err;
		size_t n = 0;

		err = stream_offer(&relay->stream, at, len, deadline, &n);
		if (err && err_kind(err) != ERR_BAD_PEER)
			return err;
		relay->early = err || n == 0;
		err_free(err);
		at += n;
		len -= n;
	}
	return OK;
}

static fallible send_body(struct relay *relay)
{
	struct http *x = relay->x;
	auto_free char *room = NULL;
	auto_buf line = BUF_INIT(32);
	size_t n = 1;

	if (!x->head.chunked && !x->body_left)
		return OK;
	room = mem_grow(NULL, PIECE, 1);
	while (!relay->early) {
		TRY(http_read(x, room, PIECE, &n));
		if (!n)
			break;
		buf_clear(&line);
		buf_fmt(&line, "%zx\r\n", n);
		if (x->head.chunked)
			TRY(offer(relay, line.at, line.len));
		TRY(offer(relay, room, n));
		if (x->head.chunked)
			TRY(offer(relay, "\r\n", 2));
	}
	return x->head.chunked ? offer(relay, "0\r\n\r\n", 5) : OK;
}

static fallible no_reply(const char *words)
{
	return err_new(BAD_PEER, "no_reply", "%s", words);
}

static fallible read_head(struct relay *relay)
{
	enum http1_verdict verdict = HTTP1_MORE;

	do {
		TRY(inlet_head(&relay->inlet, http1_reply, CLOCK_NEVER, relay->head, &verdict));
		if (verdict == HTTP1_MORE)
			return no_reply("the server closed the connection without an answer");
		if (verdict != HTTP1_DONE)
			return err_new(BAD_PEER, "bad_reply",
				       "the server's answer is not HTTP/1.1");
	} while (relay->head->status < 200 && relay->head->status != 101);
	if (relay->head->status == 101)
		return err_new(BAD_PEER, "bad_reply", "the server switched protocols unasked");
	return OK;
}

static void frame(struct relay *relay)
{
	const struct http1_head *head = relay->head;

	if (str_is(relay->x->head.method, "HEAD") || head->status == 204 || head->status == 304)
		inlet_frame(&relay->inlet, INLET_NONE, 0);
	else if (head->chunked)
		inlet_frame(&relay->inlet, INLET_CHUNKED, 0);
	else if (head->has_length)
		inlet_frame(&relay->inlet, INLET_LENGTH, head->length);
	else
		inlet_frame(&relay->inlet, INLET_TO_CLOSE, 0);
}

static fallible begin_reply(struct relay *relay)
{
	struct http *x = relay->x;
	const struct http1_head *head = relay->head;
	struct str type = http1_field(head, "Content-Type");
	const char *words = type.at ? arena_dup(x->arena, type.at, type.len)
				    : "application/octet-stream";
	size_t bytes = 0;

	for (size_t i = 0; i < head->field_count; i++)
		bytes += head->fields[i].name.len + head->fields[i].value.len + 4;
	if (bytes > FIELDS_MAX)
		return err_new(BAD_PEER, "bad_reply", "the server's head is too large");
	for (size_t i = 0; i < head->field_count; i++) {
		struct str name = head->fields[i].name;

		if (!stays(head, name) && !str_eq_nocase(name, STR("Content-Type")) &&
		    !str_eq_nocase(name, STR("Date")))
			http_set(x, arena_dup(x->arena, name.at, name.len), head->fields[i].value);
	}
	// Its pages are not ours: a browser must not take them for part of this origin.
	http_set(x, "Content-Security-Policy", STR("sandbox allow-scripts allow-forms"));
	if (head->status == 204 || head->status == 304)
		return http_reply_empty(x, head->status);
	if (head->has_length)
		return http_begin_sized(x, head->status, words, head->length);
	return http_begin(x, head->status, words);
}

static fallible pass_body(struct relay *relay)
{
	struct http *x = relay->x;
	auto_free char *room = mem_grow(NULL, PIECE, 1);
	size_t n = 1;

	while (n) {
		struct err *err;

		TRY(http_away(x, STR("")));
		err = inlet_read(&relay->inlet, room, PIECE, CLOCK_NEVER, &n);
		http_back(x);
		TRY(err, "read the server's body");
		TRY(http_write(x, room, n));
	}
	return http_end(x);
}

static fallible await_head(struct relay *relay)
{
	struct err *err;

	TRY(http_away(relay->x, HTTP_PROBE_HEAD));
	err = read_head(relay);
	http_back(relay->x);
	return err;
}

fallible relay_run(struct http *x, const struct relay_way *way)
{
	on_exit_call(relay_end) struct relay relay = {.x = x, .way = way, .stream = {.fd = -1}};

	TRY(stream_open(&relay.stream, way->loop, way->fd));
	relay.inlet.stream = &relay.stream;
	relay.head = arena_take(x->arena, sizeof(*relay.head));
	http_be_patient(x);
	TRY(send_head(&relay));
	TRY(send_body(&relay));
	TRY(await_head(&relay));
	frame(&relay);
	TRY(begin_reply(&relay));
	return x->reply_ended ? OK : pass_body(&relay);
}
