#include "http/http.h"

#include "base/mem.h"
#include "unit/http/house.h"

// The reply to one request, whose head and body are told apart by a NUL.
static void ask(const char *bytes, struct buf *reply)
{
	char *blank;

	house_talk(str_of(bytes), reply);
	blank = reply->at ? strstr(reply->at, "\r\n\r\n") : NULL;
	if (blank)
		memset(blank + 2, 0, 2);
}

static const char *body_of(const struct buf *reply)
{
	return reply->at + strlen(reply->at) + 2;
}

TASK_TEST(plain, "a reply has status, date, type, length and body")
{
	auto_buf reply = BUF_INIT(1 << 16);

	house_open(NULL);
	ask(ASK("GET", "/hello"), &reply);
	CHECK(house_status(&reply) == 200);
	CHECK(strstr(reply.at, "Content-Type: text/plain\r\n"));
	CHECK(strstr(reply.at, "Content-Length: 5\r\n"));
	CHECK(strstr(reply.at, "\r\nDate: ") && strstr(reply.at, " GMT\r\n"));
	CHECK(!strstr(reply.at, "Connection:"));
	CHECK_STR(body_of(&reply), "hello");
	CHECK(!strstr(reply.at, "\r\nInjected"));
	CHECK(strstr(reply.at, "X-Evil: a  Injected: b\r\n"));
	house_close();
}

TASK_TEST(head, "HEAD, 204 and HTTP/1.0 are framed as they should be")
{
	auto_buf reply = BUF_INIT(1 << 22);

	house_open(NULL);
	ask(ASK("HEAD", "/hello"), &reply);
	CHECK(strstr(reply.at, "Content-Length: 5\r\n"));
	CHECK_STR(body_of(&reply), "");
	ask(ASK("HEAD", "/pour"), &reply);
	CHECK(strstr(reply.at, "Transfer-Encoding: chunked\r\n"));
	CHECK_STR(body_of(&reply), "");
	ask(ASK("GET", "/empty"), &reply);
	CHECK(house_status(&reply) == 204);
	CHECK(!strstr(reply.at, "Content-Length") && !strstr(reply.at, "Transfer-Encoding"));

	ask("GET /hello HTTP/1.0\r\n\r\n", &reply);
	CHECK(strstr(reply.at, "Connection: close\r\n"));
	CHECK_STR(body_of(&reply), "hello");
	ask("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &reply);
	CHECK(strstr(reply.at, "Connection: keep-alive\r\n"));
	ask("GET /pour HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &reply);
	CHECK(strstr(reply.at, "Connection: close\r\n"));
	CHECK(!strstr(reply.at, "Transfer-Encoding"));
	CHECK(reply.len > 1 << 20 && reply.len < (1 << 20) + 400);
	house_close();
}

TASK_TEST(handlers, "a handler that forgets, repeats or cuts its reply harms only that one")
{
	auto_buf reply = BUF_INIT(1 << 16);

	house_open(NULL);
	ask(ASK("GET", "/nothing") ASK("GET", "/hello"), &reply);
	CHECK(house_status(&reply) == 500);
	CHECK(strstr(reply.at, "Connection: close\r\n"));
	house_talk(STR(ASK("GET", "/twice") ASK("GET", "/hello")), &reply);
	CHECK(house_count(&reply, "HTTP/1.1 200") == 2);
	CHECK(house_failed == 1);
	house_talk(STR(ASK("GET", "/cut") ASK("GET", "/hello")), &reply);
	CHECK(house_count(&reply, "HTTP/1.1 200") == 1);
	CHECK(strstr(reply.at, "4\r\npart\r\n") && !strstr(reply.at, "0\r\n\r\n"));
	house_close();
}

TASK_TEST(limits, "a body past the limit is 413 whether it is announced or just comes")
{
	auto_buf big = BUF_INIT(4 << 20), reply = BUF_INIT(1 << 16);

	house_open(NULL);
	ask("POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\n\r\nx", &reply);
	CHECK(house_status(&reply) == 413);
	CHECK(strstr(reply.at, "Connection: close\r\n"));
	CHECK_STR(body_of(&reply), "body_too_large");
	ask("POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775807\r\n\r\nx",
	    &reply);
	CHECK(house_status(&reply) == 413);

	buf_text(&big, "POST /body HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 300; i++) {
		buf_text(&big, "2000\r\n");
		memset(buf_space(&big, 8192), 'x', 8192);
		buf_grew(&big, 8192);
		buf_text(&big, "\r\n");
	}
	buf_text(&big, "0\r\n\r\n");
	house_talk(buf_view(&big), &reply);
	CHECK(house_status(&reply) == 413);

	buf_clear(&big); // exactly the limit
	buf_text(&big, "POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n");
	memset(buf_space(&big, 1 << 20), 'x', 1 << 20);
	buf_grew(&big, 1 << 20);
	house_talk(buf_view(&big), &reply);
	CHECK(house_status(&reply) == 200);
	CHECK(strstr(reply.at, "\r\n\r\n1048576 1048576"));
	ask(ASK("POST", "/body"), &reply);
	CHECK_STR(body_of(&reply), "0 0");
	house_close();
}

TASK_TEST(unread, "a short unread body is skipped, a long one ends the connection")
{
	auto_buf big = BUF_INIT(4 << 20), reply = BUF_INIT(1 << 16);

	house_open(NULL);
	buf_text(&big, "POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n");
	memset(buf_space(&big, 60000), 'x', 60000);
	buf_grew(&big, 60000);
	buf_text(&big, ASK("GET", "/hello"));
	house_talk(buf_view(&big), &reply);
	CHECK(house_count(&reply, "HTTP/1.1 200") == 2);

	buf_clear(&big);
	buf_text(&big, "POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 600000\r\n\r\n");
	memset(buf_space(&big, 600000), 'x', 600000);
	buf_grew(&big, 600000);
	buf_text(&big, ASK("GET", "/hello"));
	house_talk(buf_view(&big), &reply);
	CHECK(house_count(&reply, "HTTP/1.1 200") == 1);
	CHECK(house_count(&reply, "Connection: close\r\n") == 1);
	house_close();
}

TASK_TEST(expects, "100 Continue comes when the body is asked for, and only then")
{
	const char head[] = "POST /sum HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
			    "Content-Length: 3\r\n\r\n";
	auto_buf reply = BUF_INIT(1 << 16);
	struct stream stream;
	char room[256];
	size_t n = 0;

	house_open(NULL);
	house_dial(&stream);
	CHECK_OK(stream_write(&stream, head, sizeof(head) - 1, 1000));
	CHECK_OK(stream_read(&stream, room, sizeof(room) - 1, inside_now() + 1000, &n));
	room[n] = 0;
	CHECK_STR(room, "HTTP/1.1 100 Continue\r\n\r\n");
	CHECK_OK(stream_write(&stream, "abc", 3, 1000));
	CHECK_OK(stream_read(&stream, room, sizeof(room) - 1, inside_now() + 1000, &n));
	room[n] = 0;
	CHECK(strstr(room, "200 OK") && strstr(room, "\r\n\r\n3 294"));
	stream_close(&stream);

	ask("POST /hello HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
	    &reply);
	CHECK(house_status(&reply) == 200);
	CHECK(strstr(reply.at, "Connection: close\r\n"));
	house_close();
}

static void send_chunks(void *arg)
{
	struct stream *stream = arg;
	static char bytes[50000];

	memset(bytes, 1, sizeof(bytes));
	for (size_t left = 10 << 20; left > 0;) {
		size_t len = left < sizeof(bytes) ? left : sizeof(bytes);
		auto_buf line = BUF_INIT(32);

		buf_fmt(&line, "%zX\r\n", len);
		CHECK_OK(stream_write(stream, line.at, line.len, 5000));
		CHECK_OK(stream_write(stream, bytes, len, 5000));
		CHECK_OK(stream_write(stream, "\r\n", 2, 5000));
		left -= len;
	}
	CHECK_OK(stream_write(stream, "0\r\n\r\n", 5, 5000));
}

TASK_TEST(upload, "10 MiB in chunks arrive whole, at the pace of a slow handler")
{
	const char head[] = "POST /sum?slow=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
			    "Transfer-Encoding: chunked\r\n\r\n";
	auto_buf reply = BUF_INIT(1 << 16);
	struct stream stream;

	house_open(NULL);
	house_dial(&stream);
	CHECK_OK(stream_write(&stream, head, sizeof(head) - 1, 1000));
	task_start(inside_loop, "send", send_chunks, &stream);
	house_hear(&stream, &reply, 60000);
	CHECK(house_status(&reply) == 200);
	CHECK(strstr(reply.at, "\r\n\r\n10485760 10485760"));
	stream_close(&stream);
	house_close();
}

TASK_TEST(gone, "a handler can see that its peer is gone")
{
	struct stream stream;
	const char watch[] = ASK("GET", "/watch");

	house_open(NULL);
	for (int i = 0; i < 2; i++) {
		house_saw_gone = false;
		house_dial(&stream);
		CHECK_OK(stream_write(&stream, watch, sizeof(watch) - 1, 1000));
		inside_sleep(20);
		CHECK(!house_saw_gone);
		if (i)
			setsockopt(stream.fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0},
				   sizeof(struct linger));
		stream_close(&stream);
		inside_sleep(20);
		CHECK(house_saw_gone);
	}
	house_close();
}

TASK_TEST(half_closed, "a client that only closed its sending half gets its answer")
{
	auto_buf reply = BUF_INIT(1 << 16);

	house_open(NULL);
	house_talk(str_of(ASK("GET", "/away")), &reply);
	CHECK(house_count(&reply, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ") == 1);
	house_talk(str_of(ASK("GET", "/away/stream")), &reply);
	CHECK(house_status(&reply) == 200);
	CHECK(strstr(reply.at, "\r\n3\r\n:\n\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n"));
	house_talk(STR("GET /away HTTP/1.0\r\n\r\n"), &reply); // to which no 100 may be sent
	CHECK(house_status(&reply) == 200 && house_count(&reply, "HTTP/") == 1);
	CHECK(house_failed == 0 && !house_saw_gone);
	house_close();
}

TASK_TEST(silence,
	  "a silent stream is sent comments, whatever its handler does, and none within an event")
{
	auto_buf reply = BUF_INIT(1 << 16);

	http_keepalive(50);
	house_open(NULL);
	house_talk(str_of(ASK("GET", "/silent")), &reply);
	CHECK(house_count(&reply, "\r\n3\r\n:\n\n\r\n") >= 3);
	CHECK(strstr(reply.at, "data: 1\n\n\r\n3\r\n:\n\n\r\n"));
	house_talk(str_of(ASK("GET", "/silent?lines=1")), &reply);
	CHECK(house_count(&reply, "\r\n1\r\n\n\r\n") >= 3);
	house_talk(STR("GET /silent HTTP/1.0\r\n\r\n"), &reply);
	CHECK(house_count(&reply, ":\n\n") >= 3);
	house_talk(str_of(ASK("GET", "/silent?within=1")), &reply);
	CHECK(house_count(&reply, ":\n\n") == 0);
	CHECK(strstr(reply.at, "data: 2\n\r\n1\r\n\n\r\n0\r\n"));
	CHECK(house_failed == 0);
	house_close();
	http_keepalive(15000);
}

TASK_TEST(away, "a handler that waits for others is cancelled once its client is gone")
{
	static const char *const asks[] = {ASK("GET", "/away"), ASK("GET", "/away/stream")};
	struct stream stream;

	house_open(NULL);
	for (int i = 0; i < 4; i++) { // politely, or by a reset
		house_saw_gone = false;
		house_dial(&stream);
		CHECK_OK(stream_write(&stream, asks[i & 1], strlen(asks[i & 1]), 1000));
		inside_sleep(20);
		CHECK(!house_saw_gone);
		if (i & 2)
			setsockopt(stream.fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0},
				   sizeof(struct linger));
		stream_close(&stream);
		inside_sleep(50);
		CHECK(house_saw_gone && house_failed == i + 1);
		CHECK(http_server_stats(house_server).open == 0);
	}
	house_dial(&stream);
	CHECK_OK(stream_write(&stream, asks[0], strlen(asks[0]), 1000));
	stream_close(&stream);
	inside_sleep(50);
	CHECK(house_failed == 5 && http_server_stats(house_server).open == 0);
	house_close();
}

TASK_TEST(trace, "the trace is the client's if it is sane, else the request's id")
{
	auto_buf reply = BUF_INIT(1 << 16);

	house_open(NULL);
	ask("GET / HTTP/1.1\r\nHost: h\r\nx-trace-id: abc-1.2_X\r\n\r\n", &reply);
	CHECK(strstr(reply.at, "X-Trace: abc-1.2_X\r\n"));
	ask("GET / HTTP/1.1\r\nHost: h\r\n"
	    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\n",
	    &reply);
	CHECK(strstr(reply.at, "X-Trace: 4bf92f3577b34da6a3ce929d0e0e4736\r\n"));
	ask("GET / HTTP/1.1\r\nHost: h\r\nX-Trace-Id: {\"a\":1}\r\n\r\n", &reply);
	CHECK(strstr(reply.at, "X-Trace: ") && !strstr(reply.at, "{"));
	house_close();
}
