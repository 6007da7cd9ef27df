#include "http/server.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "unit/http/house.h"

#define HEAD "POST /sum HTTP/1.1\r\nHost: h\r\n"

// What a proxy and we could read differently. The second request must never be answered.
static const struct {
	const char *bytes;
	int status;
} hostile[] = {
	{HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" ASK("GET", "/x"),
	 400},
	{HEAD "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" ASK("GET", "/x"),
	 400},
	{HEAD "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" ASK("GET", "/x"), 400},
	{HEAD "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello" ASK("GET", "/x"), 400},
	{HEAD "Content-Length: +5\r\n\r\nhello" ASK("GET", "/x"), 400},
	{HEAD "Content-Length: -5\r\n\r\nhello" ASK("GET", "/x"), 400},
	{HEAD "Content-Length: 0x5\r\n\r\nhello" ASK("GET", "/x"), 400},
	{HEAD "Content-Length: 5, 5\r\n\r\nhello" ASK("GET", "/x"), 400},
	{HEAD "Content-Length: 5 5\r\n\r\nhello" ASK("GET", "/x"), 400},
	{HEAD "Content-Length: \r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Content-Length: 18446744073709551617\r\n\r\nhello" ASK("GET", "/x"), 400},
	{HEAD "Content-Length : 5\r\n\r\nhello" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: identity\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD
	 "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" ASK("GET", "/x"),
	 400},
	{HEAD "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding:\x0b"
	      "chunked\r\n\r\n0\r\n\r\n" ASK("GET", "/x"),
	 400},
	{"POST /sum HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloo\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: chunked\r\n\r\n\r\n0\r\n\r\n" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\nx" ASK("GET", "/x"), 400},
	{HEAD "Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n" ASK("GET", "/x"),
	 400},
	{"GET /a\rb HTTP/1.1\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\rHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\nHost: h\r\nA: b\rC: d\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\nHost: h\n\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\nHost: h\r\nA: b\nC: d\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n folded\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\n Host: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\nHost : h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\nHost: a b\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\nHost: h\r\n: empty\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\nHost: h\r\nA(b): c\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\nHost: h\r\nA: \x01\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1\r\nHost: h\r\nA: \x7f\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/2.0\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.2\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / http/1.1\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET  / HTTP/1.1\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET /  HTTP/1.1\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"G@T / HTTP/1.1\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET / HTTP/1.1 \r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET /\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET x HTTP/1.1\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"GET /#f HTTP/1.1\r\nHost: h\r\n\r\n" ASK("GET", "/x"), 400},
	{"\r\n\r\n" ASK("GET", "/x"), 400},
	{"\x16\x03\x01\x02\x01\x01\xfc\x03\n" ASK("GET", "/x"), 400},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" ASK("GET", "/x"), 400},
};

TASK_TEST(corpus, "a doubtful request gets one 400, and nothing behind it is answered")
{
	auto_buf reply = BUF_INIT(1 << 20);

	house_open(NULL);
	for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
		house_talk(str_of(hostile[i].bytes), &reply);
		if (house_status(&reply) != hostile[i].status ||
		    house_count(&reply, "HTTP/1.1 ") != 1)
			printf("# row %zu: %s\n# got: %.*s\n", i, hostile[i].bytes, (int)reply.len,
			       reply.at);
		CHECK(house_status(&reply) == hostile[i].status);
		CHECK(house_count(&reply, "HTTP/1.1 ") == 1);
		CHECK(house_count(&reply, "Connection: close\r\n") == 1);
	}
	house_close();
}

TASK_TEST(nul, "a NUL in line, name or value is refused")
{
	static const char rows[][48] = {"GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n",
					"GET / HTTP/1.1\r\nHo\0st: h\r\n\r\n",
					"GET / HTTP/1.1\r\nHost: h\r\nA: \0b\r\n\r\n"};
	auto_buf reply = BUF_INIT(1 << 20);

	house_open(NULL);
	for (int i = 0; i < 3; i++) {
		house_talk((struct str){rows[i], sizeof(rows[i])}, &reply);
		CHECK(house_status(&reply) == 400);
		CHECK(house_count(&reply, "HTTP/1.1 ") == 1);
	}
	house_close();
}

TASK_TEST(large, "a header of 1 MiB and ten thousand headers are 431, and the client can read it")
{
	auto_buf ask = BUF_INIT(2 << 20), reply = BUF_INIT(1 << 20);

	house_open(NULL);
	buf_text(&ask, "GET / HTTP/1.1\r\nHost: h\r\nA: ");
	for (int i = 0; i < 1 << 16; i++)
		buf_text(&ask, "0123456789abcdef");
	buf_text(&ask, "\r\n\r\n");
	house_talk(buf_view(&ask), &reply);
	CHECK(house_status(&reply) == 431);

	buf_clear(&ask);
	buf_text(&ask, "GET / HTTP/1.1\r\nHost: h\r\n");
	for (int i = 0; i < 10000; i++)
		buf_fmt(&ask, "A%d: b\r\n", i);
	buf_text(&ask, "\r\n");
	house_talk(buf_view(&ask), &reply);
	CHECK(house_status(&reply) == 431);

	buf_clear(&ask); // just under the limit
	buf_text(&ask, "GET /");
	for (int i = 0; i < 32000; i++)
		buf_char(&ask, 'a');
	buf_text(&ask, " HTTP/1.1\r\nHost: h\r\n\r\n");
	house_talk(buf_view(&ask), &reply);
	CHECK(house_status(&reply) == 200);
	house_close();
}

TASK_TEST(pipeline, "a thousand pipelined requests get a thousand replies, in order")
{
	auto_buf ask = BUF_INIT(1 << 20), reply = BUF_INIT(1 << 20), want = BUF_INIT(1 << 20);
	const char *at;

	house_open(NULL);
	for (int i = 0; i < 1000; i++) {
		// Every third body is not read by its handler.
		buf_fmt(&ask, "POST /%s?n=%d HTTP/1.1\r\nHost: h\r\n", i % 3 ? "echo" : "hello", i);
		buf_text(&ask, i % 2 ? "Content-Length: 7\r\n\r\n1234567"
				     : "Transfer-Encoding: chunked\r\n\r\n3\r\n123\r\n4\r\n4567\r\n"
				       "0\r\n\r\n");
	}
	house_talk(buf_view(&ask), &reply);
	CHECK(house_count(&reply, "HTTP/1.1 200 OK\r\n") == 1000);
	CHECK(house_served == 1000);
	at = reply.at;
	for (int i = 0; i < 1000 && at; i++) {
		buf_clear(&want);
		buf_fmt(&want, "X-Number: %d\r\n", i);
		at = strstr(at, want.at);
	}
	CHECK(at != NULL);
	CHECK(http_server_stats(house_server).requests == 1000);
	house_close();
}

TASK_TEST(dribble, "a request in single bytes is served like any other")
{
	static const char ask[] =
		"POST /sum HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
		"Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: r\r\n\r\n";
	auto_buf reply = BUF_INIT(1 << 16);
	struct stream stream;

	house_open(NULL);
	house_dial(&stream);
	for (size_t i = 0; i < sizeof(ask) - 1; i++) {
		CHECK_OK(stream_write(&stream, ask + i, 1, 1000));
		CHECK_OK(task_sleep_until(0));
	}
	house_hear(&stream, &reply, 2000);
	CHECK(house_status(&reply) == 200);
	CHECK(strstr(reply.at, "\r\n\r\n5 532"));
	stream_close(&stream);
	house_close();
}

TASK_TEST(deadlines, "a slow head is 408, a silent body 408, an idle connection is closed")
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	auto_buf reply = BUF_INIT(1 << 16);
	struct stream stream;
	int64_t before;

	limits.head_ms = limits.silence_ms = 60;
	limits.idle_ms = 120;
	house_open(&limits);

	house_dial(&stream); // a head that drips
	for (int i = 0; i < 20; i++) {
		err_free(stream_write(&stream, &"GET / HTTP/1.1\r\n"[i % 16], 1, 1000));
		if (i < 16)
			inside_sleep(5);
	}
	house_hear(&stream, &reply, 2000);
	CHECK(house_status(&reply) == 408);
	stream_close(&stream);

	buf_clear(&reply); // a body that stops
	house_dial(&stream);
	CHECK_OK(stream_write(&stream, HEAD "Content-Length: 5\r\n\r\nab", 51, 1000));
	house_hear(&stream, &reply, 2000);
	CHECK(house_status(&reply) == 408);
	stream_close(&stream);

	buf_clear(&reply); // nothing at all
	house_dial(&stream);
	house_hear(&stream, &reply, 2000);
	CHECK(reply.len == 0);
	stream_close(&stream);

	before = clock_ms(); // idle after a request
	house_dial(&stream);
	CHECK_OK(stream_write(&stream, ASK("GET", "/"), strlen(ASK("GET", "/")), 1000));
	house_hear(&stream, &reply, 2000);
	CHECK(house_status(&reply) == 200);
	CHECK(clock_ms() - before >= 110);
	stream_close(&stream);
	CHECK(house_refused == 1);
	house_close();
}

TASK_TEST(false_alarm, "a kept connection stays idle until a byte is really there")
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	auto_buf reply = BUF_INIT(1 << 16);
	struct stream stream;

	limits.head_ms = 50;
	limits.idle_ms = 400;
	house_open(&limits);
	house_dial(&stream);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(stream_write(&stream, ASK("GET", "/stale"), strlen(ASK("GET", "/stale")),
				      1000));
		house_hear(&stream, &reply, 150); // longer than a head may take
	}
	CHECK(house_count(&reply, "HTTP/1.1 200 ") == 2);
	stream_close(&stream);
	house_close();
}

TASK_TEST(patience, "a reply for patient readers outlives a pause that ends others")
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	auto_buf reply = BUF_INIT(32 << 20);
	struct stream stream;

	limits.silence_ms = 50;
	house_open(&limits);
	for (int i = 0; i < 2; i++) {
		const char *path = i ? ASK("GET", "/pour?mib=16&patient=1")
				     : ASK("GET", "/pour?mib=16");

		buf_clear(&reply);
		house_dial(&stream);
		CHECK_OK(stream_write(&stream, path, strlen(path), 1000));
		inside_sleep(300);
		house_hear(&stream, &reply, 5000 * i + 200);
		CHECK((reply.len > 16 << 20) == i);
		stream_close(&stream);
	}
	house_close();
}

TASK_TEST(slow_reader, "a reader that stops reading ends only its own reply")
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	auto_buf reply = BUF_INIT(1 << 16);
	struct stream stream;
	const char ask[] = ASK("GET", "/pour?mib=64");

	limits.silence_ms = 50;
	house_open(&limits);
	house_dial(&stream);
	CHECK_OK(stream_write(&stream, ask, sizeof(ask) - 1, 1000));
	inside_sleep(20);
	house_talk(STR(ASK("GET", "/")), &reply);
	CHECK(house_status(&reply) == 200);
	while (http_server_stats(house_server).open > 0)
		inside_sleep(5);
	CHECK(house_failed == 1);
	stream_close(&stream);
	house_close();
}

TASK_TEST(vanish, "a client that vanishes in the middle of its reply is no trouble")
{
	const char ask[] = ASK("GET", "/pour?mib=64");
	struct stream stream;

	house_open(NULL);
	for (int i = 0; i < 20; i++) {
		char c;
		size_t n;

		house_dial(&stream);
		CHECK_OK(stream_write(&stream, ask, sizeof(ask) - 1, 1000));
		CHECK_OK(stream_read(&stream, &c, 1, inside_now() + 2000, &n));
		if (i % 2)
			setsockopt(stream.fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0},
				   sizeof(struct linger));
		stream_close(&stream);
	}
	while (http_server_stats(house_server).open > 0)
		inside_sleep(5);
	CHECK(house_failed == 20);
	house_close();
}

TASK_TEST(drain, "a drain closes idle connections, and lets busy ones finish with a close")
{
	struct stream idle, busy;
	auto_buf reply = BUF_INIT(1 << 16);
	const char hello[] = ASK("GET", "/"), sleepy[] = ASK("GET", "/sleep");
	char room[4096];
	size_t n = 0;

	house_open(NULL);
	house_dial(&idle);
	CHECK_OK(stream_write(&idle, hello, sizeof(hello) - 1, 1000));
	CHECK_OK(stream_read(&idle, room, sizeof(room), inside_now() + 1000, &n));
	house_dial(&busy);
	CHECK_OK(stream_write(&busy, sleepy, sizeof(sleepy) - 1, 1000));
	inside_sleep(10);
	CHECK(http_server_stats(house_server).open == 2);
	CHECK(!http_server_idle(house_server));
	http_server_drain(house_server);
	CHECK_OK(stream_read(&idle, room, sizeof(room), inside_now() + 1000, &n));
	CHECK(n == 0);
	house_hear(&busy, &reply, 1000);
	CHECK(house_status(&reply) == 200);
	CHECK(house_count(&reply, "Connection: close\r\n") == 1);
	inside_sleep(5);
	CHECK(http_server_idle(house_server));
	stream_close(&idle);
	CHECK_ERR(dial_tcp(inside_loop, STR("127.0.0.1"), house_port, inside_now() + 1000, &idle),
		  UNAVAILABLE);
	stream_close(&busy);
	house_close();
}

TASK_TEST(latecomers, "a client that connected just before a drain is served, unless it is silent")
{
	struct stream late, mute;
	auto_buf reply = BUF_INIT(1 << 16);
	const char hello[] = ASK("GET", "/");
	char room[16];
	size_t n = 1;

	house_open(NULL);
	house_dial(&late);
	house_dial(&mute);
	inside_sleep(10);
	CHECK(http_server_stats(house_server).open == 2);
	http_server_drain(house_server);
	inside_sleep(20);
	CHECK_OK(stream_write(&late, hello, sizeof(hello) - 1, 1000));
	house_hear(&late, &reply, 1000);
	CHECK(house_status(&reply) == 200);
	CHECK(house_count(&reply, "Connection: close\r\n") == 1);
	CHECK_OK(stream_read(&mute, room, sizeof(room), inside_now() + 2000, &n));
	CHECK(n == 0);
	inside_sleep(5);
	CHECK(http_server_idle(house_server));
	stream_close(&late);
	stream_close(&mute);
	house_close();
}

TASK_TEST(cancelled, "freeing a server cancels its requests")
{
	const char sleepy[] = ASK("GET", "/watch");
	struct stream busy[8];

	house_open(NULL);
	for (int i = 0; i < 8; i++) {
		house_dial(&busy[i]);
		CHECK_OK(stream_write(&busy[i], sleepy, sizeof(sleepy) - 1, 1000));
	}
	inside_sleep(10);
	house_close();
	inside_sleep(20);
	CHECK(task_count() == 1);
	for (int i = 0; i < 8; i++)
		stream_close(&busy[i]);
}

TASK_TEST(ceiling, "at the ceiling the longest idle makes room, and when all are busy it is 503")
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	const char sleepy[] = ASK("GET", "/watch");
	auto_buf reply = BUF_INIT(1 << 16);
	struct stream guests[3];
	char c;
	size_t n = 9;

	limits.conns_max = 2;
	house_open(&limits);
	for (int i = 0; i < 3; i++) {
		house_dial(&guests[i]);
		inside_sleep(5);
	}
	CHECK_OK(stream_read(&guests[0], &c, 1, inside_now() + 1000, &n));
	CHECK(n == 0);
	CHECK(http_server_stats(house_server).open == 2);
	for (int i = 1; i < 3; i++)
		CHECK_OK(stream_write(&guests[i], sleepy, sizeof(sleepy) - 1, 1000));
	inside_sleep(10);
	house_talk(STR(""), &reply);
	CHECK(house_status(&reply) == 503);
	CHECK(http_server_stats(house_server).refused == 1);
	for (int i = 0; i < 3; i++)
		stream_close(&guests[i]);
	inside_sleep(20);
	CHECK(http_server_idle(house_server));
	house_close();
}

TASK_TEST(per_peer, "one address has its share of connections and no more")
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	auto_buf reply = BUF_INIT(1 << 16);
	struct stream guests[3];

	limits.conns_per_peer = 3;
	house_open(&limits);
	for (int i = 0; i < 3; i++)
		house_dial(&guests[i]);
	house_talk(STR(""), &reply);
	CHECK(house_status(&reply) == 503);
	stream_close(&guests[0]);
	inside_sleep(10);
	house_talk(STR(ASK("GET", "/")), &reply);
	CHECK(house_status(&reply) == 200);
	stream_close(&guests[1]);
	stream_close(&guests[2]);
	inside_sleep(10);
	house_close();
}

// A connection with half a head, and the server has seen it.
static void dial_half(struct stream *stream)
{
	house_dial(stream);
	CHECK_OK(stream_write(stream, "GET / HT", 8, 1000));
	inside_sleep(1);
}

TASK_TEST(heads,
	  "incomplete heads make room, of their own peer and at the ceiling; requests do not")
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	const char sleepy[] = ASK("GET", "/watch"), answered[] = ASK("GET", "/") "GET / HT";
	auto_buf reply = BUF_INIT(1 << 16);
	struct stream busy[3], half[24];
	uint32_t open;

	limits.conns_max = 80; // a quarter of them: 20
	house_open(&limits);
	for (int i = 0; i < 3; i++) {
		house_dial(&busy[i]);
		CHECK_OK(stream_write(&busy[i], sleepy, sizeof(sleepy) - 1, 1000));
	}
	for (int i = 0; i < 24; i++)
		dial_half(&half[i]);
	inside_sleep(10);
	open = http_server_stats(house_server).open;
	CHECK(open == 23);
	house_hear(&half[0], &reply, 1000); // closed without a word
	CHECK(reply.len == 0);
	house_talk(STR(ASK("GET", "/")), &reply);
	CHECK(house_status(&reply) == 200);
	for (int i = 0; i < 24; i++)
		stream_close(&half[i]);
	inside_sleep(20);

	http_server_bound(house_server, 6, 0); // at the ceiling, whoever it is
	for (int i = 0; i < 3; i++) {
		house_dial(&half[i]);
		CHECK_OK(stream_write(&half[i], answered, sizeof(answered) - 1, 1000));
		inside_sleep(5);
	}
	CHECK(http_server_stats(house_server).open == 6);
	buf_clear(&reply);
	house_talk(STR(ASK("GET", "/")), &reply);
	CHECK(house_status(&reply) == 200);
	CHECK(http_server_stats(house_server).refused == 0);
	for (int i = 0; i < 3; i++)
		stream_close(&half[i]);
	for (int i = 0; i < 3; i++)
		stream_close(&busy[i]);
	inside_sleep(20);
	CHECK(http_server_idle(house_server));
	house_close();
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = -1; // the directory's own

	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

TASK_TEST(no_fds, "without fds accepting pauses, open connections go on, and it recovers")
{
	const char hello[] = ASK("GET", "/");
	auto_buf reply = BUF_INIT(1 << 16);
	struct stream early, late[40];
	struct rlimit before, few;
	char room[4096];
	size_t n = 0;

	house_open(NULL);
	house_dial(&early);
	inside_sleep(5);
	CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
	few = before;
	few.rlim_cur = (rlim_t)count_fds() + 60;
	CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
	for (int i = 0; i < 40; i++)
		house_dial(&late[i]);
	inside_sleep(30);
	CHECK(http_server_stats(house_server).open < 41);
	CHECK(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0); // from the reserve
	CHECK_OK(stream_write(&early, hello, sizeof(hello) - 1, 1000));
	CHECK_OK(stream_read(&early, room, sizeof(room), inside_now() + 1000, &n));
	CHECK(n > 0);
	for (int i = 0; i < 40; i++)
		stream_close(&late[i]);
	inside_sleep(300);
	house_talk(STR(ASK("GET", "/")), &reply);
	CHECK(house_status(&reply) == 200);
	setrlimit(RLIMIT_NOFILE, &before);
	stream_close(&early);
	house_close();
}

static void ask_some(void *arg)
{
	const char hello[] = ASK("GET", "/");
	struct stream stream;

	house_dial(&stream);
	for (int i = 0; i < 20; i++) {
		char room[4096];
		size_t n = 0;

		CHECK_OK(stream_write(&stream, hello, sizeof(hello) - 1, 1000));
		CHECK_OK(stream_read(&stream, room, sizeof(room), inside_now() + 5000, &n));
		CHECK(n > 0);
	}
	++*(int *)arg;
	stream_close(&stream);
}

TASK_TEST(crowd, "a crowd of clients is served side by side, and nothing stays behind")
{
	int done = 0, fds = count_fds();

	house_open(NULL);
	for (int i = 0; i < 60; i++)
		task_start(inside_loop, "client", ask_some, &done);
	while (done < 60 && !tap_bad)
		inside_sleep(5);
	inside_sleep(20);
	CHECK(http_server_stats(house_server).requests == 1200);
	CHECK(http_server_idle(house_server));
	house_close();
	CHECK(count_fds() == fds);
}
