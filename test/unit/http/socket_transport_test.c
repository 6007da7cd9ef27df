#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "http/channel.h"
#include "http/server.h"
#include "loop/dial.h"
#include "loop/offload.h"
#include "unit/loop/inside.h"

static struct http_server *server;
static uint16_t port;
static int file; // what is sent, or received
static uint64_t claimed, received, max_len = 1ull << 40;
static char failed[64];

static fallible handle(struct http *x)
{
	uint64_t len = 0;

	if (str_is(x->head.method, "PUT")) {
		TRY(http_recv_file(x, file, max_len, &len));
		received = len;
		return http_reply(x, 200, "text/plain",
				  str_of(arena_fmt(x->arena, "%llu", (unsigned long long)len)));
	}
	if (str_is(x->url.path, "/chunked")) {
		TRY(http_begin(x, 200, "text/plain"));
		TRY(http_write(x, "<", 1));
		TRY(http_send_file(x, file, 1, 5));
		TRY(http_write(x, ">", 1));
		return http_end(x);
	}
	if (str_is(x->url.path, "/short")) {
		TRY(http_begin_sized(x, 200, "text/plain", 10));
		TRY(http_write(x, "1234", 4));
		return http_end(x);
	}
	TRY(http_begin_sized(x, 200, "application/octet-stream", claimed));
	TRY(http_send_file(x, file, 0, claimed));
	return http_end(x);
}

static void serve(struct http *x)
{
	auto_err err = handle(x);

	if (!err)
		return;
	snprintf(failed, sizeof(failed), "%s", err_reason(err));
	if (!x->reply_begun)
		err_free(http_reply(x, err_http(err), "text/plain", str_of(err_reason(err))));
}

static void refuse(struct http *x, struct err *why)
{
	err_free(why);
	err_free(http_reply_empty(x, 400));
}

static void open_house(uint32_t silence_ms)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	int fd = -1;

	limits.silence_ms = silence_ms;
	failed[0] = 0;
	max_len = 1ull << 40;
	received = 0;
	file = memfd_create("body", MFD_CLOEXEC);
	CHECK_OK(offload_open(inside_loop, 2));
	CHECK_OK(dial_listen(STR("127.0.0.1:0"), &fd, &port));
	CHECK_OK(http_server_open(inside_loop, &limits, serve, refuse, NULL, &server));
	CHECK_OK(http_server_listen(server, fd));
}

static void close_house(void)
{
	http_server_free(server);
	inside_sleep(50);
	offload_close();
	close(file);
}

static void dial(struct stream *out)
{
	*out = (struct stream){.fd = -1};
	CHECK_OK(dial_tcp(inside_loop, STR("127.0.0.1"), port, inside_now() + 2000, out));
}

static void hear(struct stream *stream, struct buf *out, size_t enough)
{
	for (size_t n = 1; n > 0 && out->len < enough;) {
		char *space = buf_space(out, 65536);

		n = 0;
		if (space)
			err_free(stream_read(stream, space, 65536, inside_now() + 5000, &n));
		buf_grew(out, n);
	}
}

static void say(struct stream *stream, const char *text)
{
	CHECK_OK(stream_write(stream, text, strlen(text), 5000));
}

// A pattern that no shift repeats.
static char pattern(uint64_t i)
{
	return (char)((i * 2654435761u) >> 13);
}

static void fill(uint64_t len)
{
	char *at;

	CHECK(ftruncate(file, (off_t)len) == 0);
	at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(at != MAP_FAILED);
	for (uint64_t i = 0; i < len; i++)
		at[i] = pattern(i);
	munmap(at, len);
	claimed = len;
}

static bool holds_pattern(uint64_t len)
{
	char room[4096];

	for (uint64_t at = 0; at < len;) {
		ssize_t n = pread(file, room, sizeof(room), (off_t)at);

		if (n <= 0)
			return false;
		for (ssize_t i = 0; i < n && at + (uint64_t)i < len; i++)
			if (room[i] != pattern(at + (uint64_t)i))
				return false;
		at += (uint64_t)n;
	}
	return true;
}

TASK_TEST(sends, "a file goes out whole, and the connection serves on")
{
	auto_buf out = BUF_INIT(32 << 20);
	struct stream stream;
	const char *body;

	open_house(5000);
	fill(9 << 20);
	dial(&stream);
	say(&stream, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
	hear(&stream, &out, (9 << 20) + 64);
	CHECK(strstr(out.at, "Content-Length: 9437184\r\n"));
	body = strstr(out.at, "\r\n\r\n") + 4;
	CHECK(out.at + out.len - body == 9 << 20);
	for (int i = 0; i < 9 << 20; i++)
		CHECK(body[i] == pattern((uint64_t)i));
	buf_clear(&out);
	claimed = 3;
	say(&stream, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	hear(&stream, &out, 1 << 20);
	CHECK(strstr(out.at, "Content-Length: 3\r\n"));
	stream_close(&stream);
	close_house();
}

TASK_TEST(head_sends_nothing, "HEAD gets the length and no byte of the file")
{
	auto_buf out = BUF_INIT(1 << 20);
	struct stream stream;

	open_house(5000);
	fill(4096);
	dial(&stream);
	say(&stream, "HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	hear(&stream, &out, 1 << 20);
	CHECK(strstr(out.at, "Content-Length: 4096\r\n"));
	CHECK(strcmp(out.at + out.len - 4, "\r\n\r\n") == 0);
	stream_close(&stream);
	close_house();
}

TASK_TEST(chunks_out, "a file can be a part of a chunked reply")
{
	auto_buf out = BUF_INIT(1 << 20);
	struct stream stream;

	open_house(5000);
	CHECK(write(file, "0123456789", 10) == 10);
	dial(&stream);
	say(&stream, "GET /chunked HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	hear(&stream, &out, 1 << 20);
	CHECK(strstr(out.at, "1\r\n<\r\n5\r\n12345\r\n1\r\n>\r\n0\r\n\r\n"));
	stream_close(&stream);
	close_house();
}

TASK_TEST(shrunk, "a file that became shorter, or a body that did, cuts the connection")
{
	auto_buf out = BUF_INIT(4 << 20);
	struct stream stream;

	open_house(5000);
	fill(1 << 20);
	claimed = 2 << 20;
	dial(&stream);
	say(&stream, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
	hear(&stream, &out, 4 << 20);
	CHECK(out.len < (1 << 20) + 4096 && out.len > 1 << 20);
	CHECK_STR(failed, "file_changed");
	stream_close(&stream);

	buf_clear(&out);
	dial(&stream);
	say(&stream, "GET /short HTTP/1.1\r\nHost: h\r\n\r\n");
	hear(&stream, &out, 4 << 20);
	CHECK(strcmp(out.at + out.len - 8, "\r\n\r\n1234") == 0);
	CHECK_STR(failed, "internal");
	stream_close(&stream);
	close_house();
}

static void put_pattern(struct stream *stream, uint64_t len, bool chunked)
{
	static char room[100000];
	char line[32];

	for (uint64_t at = 0; at < len;) {
		size_t n = len - at < sizeof(room) ? (size_t)(len - at) : sizeof(room);

		for (size_t i = 0; i < n; i++)
			room[i] = pattern(at + i);
		snprintf(line, sizeof(line), "%zx\r\n", n);
		if (chunked)
			say(stream, line);
		CHECK_OK(stream_write(stream, room, n, 5000));
		if (chunked)
			say(stream, "\r\n");
		at += n;
	}
	if (chunked)
		say(stream, "0\r\n\r\n");
}

static void put_and_ask(bool chunked)
{
	auto_buf out = BUF_INIT(1 << 20);
	struct stream stream;
	uint64_t len = 5000001;

	open_house(5000);
	dial(&stream);
	say(&stream, chunked ? "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
			     : "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000001\r\n\r\n");
	put_pattern(&stream, len, chunked);
	// The next request is there before the first is answered.
	say(&stream, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nConnection: "
		     "close\r\n\r\nok");
	hear(&stream, &out, 1 << 20);
	CHECK(strstr(out.at, "\r\n\r\n5000001HTTP/1.1 200 OK"));
	CHECK(strcmp(out.at + out.len - 5, "\r\n\r\n2") == 0);
	CHECK(holds_pattern(len));
	stream_close(&stream);
	close_house();
}

TASK_TEST(takes, "a body of known length goes into a file, and not a byte of the next request")
{
	put_and_ask(false);
}

TASK_TEST(takes_chunks, "so does a chunked one")
{
	put_and_ask(true);
}

TASK_TEST(together, "a body that came with its head is written too")
{
	auto_buf out = BUF_INIT(1 << 20);
	char room[16] = {0};
	struct stream stream;

	open_house(5000);
	dial(&stream);
	say(&stream, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: "
		     "close\r\n\r\nhello");
	hear(&stream, &out, 1 << 20);
	CHECK(pread(file, room, sizeof(room), 0) == 5);
	CHECK_STR(room, "hello");
	stream_close(&stream);
	close_house();
}

TASK_TEST(bounds, "more than the bound is refused, at once when it is announced")
{
	auto_buf out = BUF_INIT(1 << 20);
	struct stream stream;

	open_house(5000);
	max_len = 1000;
	dial(&stream);
	say(&stream, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
	hear(&stream, &out, 13);
	CHECK(memcmp(out.at, "HTTP/1.1 413 ", 13) == 0);
	stream_close(&stream);
	buf_clear(&out);
	dial(&stream);
	say(&stream, "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
	put_pattern(&stream, 1001, true);
	hear(&stream, &out, 13);
	CHECK(memcmp(out.at, "HTTP/1.1 413 ", 13) == 0);
	stream_close(&stream);
	close_house();
}

TASK_TEST(leaves, "a client that leaves, or falls silent, ends the transfer")
{
	auto_buf out = BUF_INIT(1 << 20);
	struct stream stream;

	open_house(200);
	dial(&stream);
	say(&stream, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nxxx");
	inside_sleep(20);
	stream_close(&stream);
	inside_sleep(50);
	CHECK_STR(failed, "cut_body");

	dial(&stream);
	say(&stream, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nxxx");
	inside_sleep(400);
	CHECK_STR(failed, "slow_client");
	stream_close(&stream);

	fill(40 << 20);
	failed[0] = 0;
	dial(&stream);
	say(&stream, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
	inside_sleep(600);
	CHECK_STR(failed, "slow_client");
	stream_close(&stream);

	failed[0] = 0;
	dial(&stream);
	say(&stream, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
	hear(&stream, &out, 1000);
	stream_close(&stream);
	inside_sleep(50);
	CHECK_STR(failed, "peer_gone");
	close_house();
}

TASK_TEST(full, "a file that cannot take more says so")
{
	auto_buf out = BUF_INIT(1 << 20);
	struct stream stream;

	open_house(5000);
	close(file);
	file = open("/dev/full", O_WRONLY | O_CLOEXEC);
	dial(&stream);
	say(&stream, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n");
	put_pattern(&stream, 300000, false);
	hear(&stream, &out, 13);
	CHECK(memcmp(out.at, "HTTP/1.1 507 ", 13) == 0);
	CHECK_STR(failed, "no_space");
	stream_close(&stream);
	close_house();
}
