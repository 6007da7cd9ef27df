// A server on loopback in the test's own loop, with a few handlers, and a raw client for it.
#pragma once

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "http/channel.h"
#include "http/server.h"
#include "http/upgrade.h"
#include "loop/dial.h"
#include "unit/loop/inside.h"

static struct http_server *house_server;
static uint16_t house_port;
static int house_served, house_refused, house_failed;
static bool house_saw_gone;
static upgrade_fn *house_talks; // what /ws does
static struct wsock_options house_ws;

static fallible house_echo(struct http *x)
{
	char room[8192];
	size_t n = 0;

	TRY(http_begin(x, 200, "application/octet-stream"));
	for (;;) {
		TRY(http_read(x, room, sizeof(room), &n));
		if (n == 0)
			return http_end(x);
		TRY(http_write(x, room, n));
	}
}

// Adds the bytes of the body up, slowly when asked to: /sum?slow=1
static fallible house_sum(struct http *x)
{
	bool slow = http_query(x, "slow").at != NULL;
	uint64_t total = 0, sum = 0;
	char room[16384];

	for (size_t n = 1; n > 0; total += n) {
		TRY(http_read(x, room, sizeof(room), &n));
		for (size_t i = 0; i < n; i++)
			sum += (unsigned char)room[i];
		if (slow && total % 8 == 0)
			TRY(task_sleep_until(inside_now() + 1));
	}
	return http_reply(x, 200, "text/plain",
			  str_of(arena_fmt(x->arena, "%llu %llu", (unsigned long long)total,
					   (unsigned long long)sum)));
}

static fallible house_body(struct http *x)
{
	struct str body = {NULL, 0};

	TRY(http_body(x, 0, &body));
	return http_reply(x, 200, "text/plain",
			  str_of(arena_fmt(x->arena, "%zu %zu", body.len, strlen(body.at))));
}

static fallible house_copy(struct http *x)
{
	static char bytes[65536];
	struct str mib = http_query(x, "mib");
	uint64_t count = 1;

	str_to_u64(mib, 1, 1000, &count);
	if (http_query(x, "patient").at)
		http_be_patient(x);
	TRY(http_begin(x, 200, "application/octet-stream"));
	for (uint64_t i = 0; i < count * 16; i++)
		TRY(http_write(x, bytes, sizeof(bytes)));
	return http_end(x);
}

static fallible house_watch(struct http *x)
{
	while (!http_peer_gone(x, HTTP_PROBE_HEAD))
		TRY(task_sleep_until(inside_now() + 2));
	house_saw_gone = true;
	return http_reply(x, 200, NULL, STR("{}"));
}

// Waits for something else than its client, as one that runs a command does.
static fallible house_away(struct http *x, bool streams)
{
	struct err *err;

	if (streams)
		TRY(http_begin(x, 200, "text/event-stream"));
	TRY(http_away(x, streams ? HTTP_PROBE_EVENT : HTTP_PROBE_HEAD));
	err = task_sleep_until(inside_now() + 300);
	http_back(x);
	house_saw_gone = err != NULL;
	TRY(err);
	if (!streams)
		return http_reply(x, 200, NULL, STR("{}"));
	TRY(http_write(x, "data: x\n\n", 9));
	return http_end(x);
}

// Silent streams: one that is busy with something else, one that stops within an event, one of
// lines.
static fallible house_silent(struct http *x)
{
	bool lines = http_query(x, "lines").at != NULL, within = http_query(x, "within").at != NULL;

	TRY(http_begin(x, 200, lines ? "application/x-ndjson" : "text/event-stream"));
	TRY(http_write(x, lines ? "{}\n" : "data: 1\n\n", lines ? 3 : 9));
	if (within)
		TRY(http_write(x, "data: 2\n", 8));
	for (int i = 0; i < 30; i++)
		TRY(http_while_away(x, within ? STR("") : HTTP_PROBE_EVENT,
				    task_sleep_until(inside_now() + 10)));
	TRY(http_write(x, "\n", within));
	return http_end(x);
}

static fallible house_handle(struct http *x)
{
	struct str path = x->url.path, number = http_query(x, "n");

	if (number.at)
		http_set(x, "X-Number", number);
	if (str_is(path, "/echo"))
		return house_echo(x);
	if (str_is(path, "/sum"))
		return house_sum(x);
	if (str_is(path, "/body"))
		return house_body(x);
	if (str_is(path, "/pour"))
		return house_copy(x);
	if (str_is(path, "/watch"))
		return house_watch(x);
	if (str_is(path, "/away") || str_is(path, "/away/stream"))
		return house_away(x, str_is(path, "/away/stream"));
	if (str_is(path, "/silent"))
		return house_silent(x);
	if (str_is(path, "/ws"))
		return upgrade_run(x, &house_ws, house_talks, NULL);
	if (str_is(path, "/stale")) // as after an edge about bytes that were already read
		x->conn->stream.readable = true;
	if (str_is(path, "/empty"))
		return http_reply_empty(x, 204);
	if (str_is(path, "/nothing"))
		return OK;
	if (str_is(path, "/twice")) {
		TRY(http_reply(x, 200, NULL, STR("{}")));
		return http_reply(x, 200, NULL, STR("{}"));
	}
	if (str_is(path, "/cut")) {
		TRY(http_begin(x, 200, "text/plain"));
		return http_write(x, "part", 4);
	}
	if (str_is(path, "/sleep"))
		TRY(task_sleep_until(inside_now() + 60));
	http_set(x, "X-Evil", STR("a\r\nInjected: b"));
	http_set(x, "X-Trace", x->trace);
	return http_reply(x, 200, "text/plain", STR("hello"));
}

static void house_serve(struct http *x)
{
	auto_err err = house_handle(x);

	house_served++;
	house_failed += err != NULL;
	if (err && !x->reply_begun)
		err_free(http_reply(x, err_http(err), "text/plain", str_of(err_reason(err))));
}

static void house_refuse(struct http *x, struct err *why)
{
	auto_err err = why;

	house_refused++;
	err_free(http_reply(x, err_http(err), "text/plain", str_of(err_reason(err))));
}

static inline void house_open(const struct http_limits *limits)
{
	struct http_limits usual = HTTP_LIMITS_DEFAULT;
	int fd = -1;

	house_served = house_refused = house_failed = 0;
	house_saw_gone = false;
	CHECK_OK(dial_listen(STR("127.0.0.1:0"), &fd, &house_port));
	CHECK_OK(http_server_open(inside_loop, limits ? limits : &usual, house_serve, house_refuse,
				  NULL, &house_server));
	CHECK_OK(http_server_listen(house_server, fd));
}

static inline void house_close(void)
{
	http_server_free(house_server);
}

static inline void house_dial(struct stream *out)
{
	*out = (struct stream){.fd = -1};
	CHECK_OK(dial_tcp(inside_loop, STR("127.0.0.1"), house_port, inside_now() + 2000, out));
}

// Everything that comes until the server closes, or for `ms`.
static inline void house_hear(struct stream *stream, struct buf *out, int64_t ms)
{
	int64_t deadline = inside_now() + ms;

	for (size_t n = 1; n > 0;) {
		char *space = buf_space(out, 4096);

		n = 0;
		if (space)
			err_free(stream_read(stream, space, 4096, deadline, &n));
		buf_grew(out, n);
	}
}

// Sends the bytes, says that no more will come, and hears the whole answer.
static inline void house_talk(struct str bytes, struct buf *out)
{
	struct stream stream;

	buf_clear(out);
	house_dial(&stream);
	err_free(stream_write(&stream, bytes.at, bytes.len, 5000));
	shutdown(stream.fd, SHUT_WR);
	house_hear(&stream, out, 8000);
	stream_close(&stream);
}

static inline int house_count(const struct buf *text, const char *what)
{
	int count = 0;

	for (const char *at = text->at; at && (at = strstr(at, what)); at++)
		count++;
	return count;
}

static inline int house_status(const struct buf *text)
{
	return text->len > 12 && memcmp(text->at, "HTTP/1.1 ", 9) == 0
		       ? (int)strtol(text->at + 9, NULL, 10)
		       : 0;
}

#define ASK(method, path) method " " path " HTTP/1.1\r\nHost: h\r\n\r\n"
