#include "http/client.h"

#include "base/mem.h"
#include "unit/http/house.h"

static struct http_client *client;

static void client_open(const char *path)
{
	auto_free char *url = mem_fmt("http://127.0.0.1:%u%s", house_port, path);

	CHECK_OK(http_client_open(inside_loop, str_of(url), STR("key"), &client));
}

TASK_TEST(asks, "questions and answers share one connection")
{
	auto_buf body = BUF_INIT(1 << 16);
	int status = 0;

	house_open(NULL);
	client_open("");
	for (int i = 0; i < 100; i++) {
		buf_clear(&body);
		CHECK_OK(http_client_ask(client, "POST", "/body", STR("{\"a\":1}"), &status));
		CHECK(status == 200);
		CHECK_OK(http_client_body(client, &body));
		CHECK_STR(body.at, "7 7");
		CHECK(str_is(http_client_field(client, "content-type"), "text/plain"));
		CHECK(!http_client_field(client, "x-none").at);
	}
	CHECK_OK(http_client_ask(client, "HEAD", "/hello", (struct str){NULL, 0}, &status));
	CHECK_OK(http_client_ask(client, "GET", "/empty", (struct str){NULL, 0}, &status));
	CHECK(status == 204);
	CHECK(http_server_stats(house_server).conns == 1);
	http_client_free(client);
	house_close();
}

TASK_TEST(prefix, "a prefix of the URL, the query and extra headers reach the server")
{
	int status = 0;

	house_open(NULL);
	client_open("/pour/");
	http_client_header(client, "X-Trace-Id", STR("mine"));
	CHECK_OK(http_client_ask(client, "GET", "/deep?n=7", (struct str){NULL, 0}, &status));
	CHECK(status == 200);
	CHECK(str_is(http_client_field(client, "X-Trace"), "mine"));
	CHECK(str_is(http_client_field(client, "X-Number"), "7"));
	http_client_free(client);
	house_close();
}

TASK_TEST(streams, "bodies stream both ways")
{
	static char bytes[100000];
	uint64_t total = 0;
	int status = 0;

	house_open(NULL);
	client_open("");
	memset(bytes, 'x', sizeof(bytes));
	CHECK_OK(http_client_begin(client, "POST", "/sum", "application/octet-stream"));
	for (int i = 0; i < 50; i++)
		CHECK_OK(http_client_write(client, bytes, sizeof(bytes)));
	CHECK_OK(http_client_finish(client, &status));
	CHECK(status == 200);
	{
		auto_buf body = BUF_INIT(1 << 16);

		CHECK_OK(http_client_body(client, &body));
		CHECK_STR(body.at, "5000000 600000000");
	}
	CHECK_OK(http_client_ask(client, "GET", "/pour?mib=8", (struct str){NULL, 0}, &status));
	for (size_t n = 1; n > 0; total += n)
		CHECK_OK(http_client_read(client, bytes, sizeof(bytes), &n));
	CHECK(total == 8 << 20);
	CHECK(http_server_stats(house_server).conns == 1);
	http_client_free(client);
	house_close();
}

TASK_TEST(early, "a server that refuses a long body early is heard")
{
	static char bytes[100000];
	auto_buf body = BUF_INIT(1 << 16);
	int status = 0;

	house_open(NULL);
	client_open("");
	CHECK_OK(http_client_begin(client, "POST", "/body", "application/json"));
	for (int i = 0; i < 200; i++)
		CHECK_OK(http_client_write(client, bytes, sizeof(bytes)));
	CHECK_OK(http_client_finish(client, &status));
	CHECK(status == 413);
	CHECK_OK(http_client_body(client, &body));
	CHECK_STR(body.at, "body_too_large");
	CHECK_OK(http_client_ask(client, "GET", "/hello", (struct str){NULL, 0}, &status));
	CHECK(status == 200);
	http_client_free(client);
	house_close();
}

TASK_TEST(reopened, "a connection that the server closed while idle is opened again")
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	auto_buf small = BUF_INIT(3);
	int status = 0;

	limits.idle_ms = 20;
	house_open(&limits);
	client_open("");
	for (int i = 0; i < 3; i++) {
		CHECK_OK(http_client_ask(client, "POST", "/body", STR("{}"), &status));
		CHECK(status == 200);
		inside_sleep(50);
	}
	CHECK(http_server_stats(house_server).conns == 3);
	// A reply that was not read to its end ends its connection, too.
	CHECK_OK(http_client_ask(client, "GET", "/pour?mib=8", (struct str){NULL, 0}, &status));
	CHECK_OK(http_client_ask(client, "GET", "/hello", (struct str){NULL, 0}, &status));
	CHECK_ERR(http_client_body(client, &small), TOO_LARGE);
	http_client_free(client);
	house_close();
}

static void lie(void *arg)
{
	auto_fd listener = *(int *)arg;
	static const char *const words[] = {
		"", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab",
		"HTTP/1.1 200 OK\r\n\r\nto the end",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"};

	for (int i = 0; i < 5; i++) {
		auto_fd fd = -1;
		uint32_t events;
		char room[4096];

		CHECK_OK(task_wait_fd(listener, EPOLLIN, inside_now() + 5000, &events));
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		CHECK_OK(task_wait_fd(fd, EPOLLIN, inside_now() + 5000, &events));
		CHECK(read(fd, room, sizeof(room)) > 0);
		CHECK(write(fd, words[i], strlen(words[i])) == (ssize_t)strlen(words[i]));
	}
}

TASK_TEST(liars, "an answer that is not HTTP, or is cut, is an error of the peer")
{
	auto_buf body = BUF_INIT(1 << 16);
	int fd = -1, status = 0;

	CHECK_OK(dial_listen(STR("127.0.0.1:0"), &fd, &house_port));
	task_start(inside_loop, "liar", lie, &fd);
	client_open("");
	CHECK_ERR(http_client_ask(client, "GET", "/", (struct str){NULL, 0}, &status), BAD_PEER);
	CHECK_ERR(http_client_ask(client, "GET", "/", (struct str){NULL, 0}, &status), BAD_PEER);
	CHECK(status == 0);
	CHECK_OK(http_client_ask(client, "GET", "/", (struct str){NULL, 0}, &status));
	CHECK_ERR(http_client_body(client, &body), BAD_PEER);
	buf_clear(&body);
	CHECK_OK(http_client_ask(client, "GET", "/", (struct str){NULL, 0}, &status));
	CHECK_OK(http_client_body(client, &body));
	CHECK_STR(body.at, "to the end");
	CHECK_OK(http_client_ask(client, "GET", "/", (struct str){NULL, 0}, &status));
	CHECK(status == 404);
	CHECK_ERR(http_client_ask(client, "GET", "/", (struct str){NULL, 0}, &status), UNAVAILABLE);
	http_client_free(client);
}

TASK_TEST(urls, "a malformed server URL or key is refused")
{
	client = NULL;
	CHECK_ERR(http_client_open(inside_loop, STR("localhost:1"), STR("k"), &client), INVALID);
	CHECK_ERR(http_client_open(inside_loop, STR("http://"), STR("k"), &client), INVALID);
	CHECK_ERR(http_client_open(inside_loop, STR("http://h"), STR("k\r\nA: b"), &client),
		  INVALID);
	CHECK(!client);
}
