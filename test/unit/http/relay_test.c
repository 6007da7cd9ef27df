// A relay between raw clients and servers that say what they are told to say.
#include "http/relay.h"

#include <linux/tcp.h>
#include <netinet/in.h>

#include "base/mem.h"
#include "http/relay_head.h"
#include "unit/http/house.h"

static struct http_server *front;
static uint16_t front_port, behind_port;
static struct relay_options
	ways; // how the front relays; loop, fd and path are set for each request
static int front_failed;

static fallible pass_on(struct http *x)
{
	struct relay_options way = ways;
	struct stream stream = {.fd = -1};

	way.loop = inside_loop;
	TRY(dial_tcp(inside_loop, STR("127.0.0.1"), behind_port, inside_now() + 2000, &stream));
	loop_unwatch(inside_loop, &stream.watch);
	way.fd = stream.fd;
	way.host = STR("localhost:8080");
	way.path = x->url.path;
	return relay_run(x, &way);
}

static void front_serve(struct http *x)
{
	auto_err err = pass_on(x);

	front_failed += err != NULL;
	if (err && !x->reply_begun)
		err_free(http_reply(x, err_http(err), "text/plain", str_of(err_reason(err))));
}

static void open_front(uint16_t behind)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	int fd = -1;

	behind_port = behind;
	front_failed = 0;
	CHECK_OK(dial_listen(STR("127.0.0.1:0"), &fd, &front_port));
	CHECK_OK(http_server_open(inside_loop, &limits, front_serve, house_refuse, NULL, &front));
	CHECK_OK(http_server_listen(front, fd));
}

static void dial_front(struct stream *out)
{
	*out = (struct stream){.fd = -1};
	CHECK_OK(dial_tcp(inside_loop, STR("127.0.0.1"), front_port, inside_now() + 2000, out));
}

static void say(struct stream *stream, const char *words)
{
	CHECK_OK(stream_write(stream, words, strlen(words), 5000));
}

static void talk_front(const char *words, struct buf *out)
{
	struct stream stream;

	buf_clear(out);
	dial_front(&stream);
	say(&stream, words);
	house_hear(&stream, out, 5000);
	stream_close(&stream);
}

// A server of one connection: hears a head, says its piece, and hangs up.
static struct {
	int listener;
	const char *says;
	struct buf heard;
	bool mute; // never says anything, until its client leaves
	bool echo; // after its piece it says whatever it hears
} behind;

static fallible play(struct stream *stream)
{
	char room[4096];
	size_t n = 1;

	while (n && !strstr(behind.heard.at ? behind.heard.at : "", "\r\n\r\n")) {
		TRY(stream_read(stream, room, sizeof(room), inside_now() + 5000, &n));
		buf_add(&behind.heard, room, n);
	}
	while (behind.mute && n)
		TRY(stream_read(stream, room, sizeof(room), inside_now() + 5000, &n));
	if (!behind.mute)
		TRY(stream_write(stream, behind.says, strlen(behind.says), 5000));
	while (behind.echo && n) {
		TRY(stream_read(stream, room, sizeof(room), inside_now() + 5000, &n));
		TRY(stream_write(stream, room, n, 5000));
	}
	return OK;
}

static void run_behind(void *arg)
{
	struct stream stream = {.fd = -1};
	uint32_t events;
	int fd;

	(void)arg;
	CHECK_OK(task_wait_fd(behind.listener, EPOLLIN, inside_now() + 5000, &events));
	fd = accept4(behind.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	CHECK_OK(stream_open(&stream, inside_loop, fd));
	err_free(play(&stream));
	stream_close(&stream);
	close(behind.listener);
}

static void stage(const char *says)
{
	uint16_t port = 0;

	buf_done(&behind.heard);
	behind.heard = BUF_INIT(65536);
	behind.says = says;
	CHECK_OK(dial_listen(STR("127.0.0.1:0"), &behind.listener, &port));
	task_start(inside_loop, "behind", run_behind, NULL);
	if (front)
		behind_port = port;
	else
		open_front(port);
}

static void unstage(void)
{
	http_server_free(take_ptr(front));
	buf_done(&behind.heard);
	behind.mute = behind.echo = false;
	ways = (struct relay_options){0};
}

#define PLAIN "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

TASK_TEST(fields, "the server hears its own name, where the client came from, and nothing that is "
		  "the connection's or that the client made up")
{
	const struct http1_field more[] = {{STR("X-Sandbox-Name"), STR("mine")}};
	auto_buf got = BUF_INIT(65536);

	ways = (struct relay_options){.proto = "https", .more = more, .more_count = 1};
	stage(PLAIN);
	talk_front(
		"GET /a%20b?x=1 HTTP/1.1\r\nHost: 8080-box-tok.example.org\r\nX-Mine: 1\r\n"
		"X-Forwarded-For: 6.6.6.6\r\nX-FORWARDED-Host: evil\r\nForwarded: for=6.6.6.6\r\n"
		"X-Sandbox-Name: other\r\nX-Real-IP: 6.6.6.6\r\nX-Gone: 1\r\nTE: trailers\r\n"
		"Authorization: Bearer key\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"
		"Connection: close, X-Gone, Upgrade, HTTP2-Settings\r\n\r\n",
		&got);
	CHECK(house_status(&got) == 200 && strstr(got.at, "\r\n\r\nok"));
	CHECK(strstr(behind.heard.at, "GET /a%20b?x=1 HTTP/1.1\r\nHost: localhost:8080\r\n"));
	CHECK(strstr(behind.heard.at, "X-Mine: 1\r\n"));
	CHECK(strstr(behind.heard.at, "X-Forwarded-For: 127.0.0.1\r\n"));
	CHECK(strstr(behind.heard.at, "X-Forwarded-Proto: https\r\n"));
	CHECK(strstr(behind.heard.at, "X-Forwarded-Host: 8080-box-tok.example.org\r\n"));
	CHECK(strstr(behind.heard.at, "X-Sandbox-Name: mine\r\n"));
	CHECK(strstr(behind.heard.at, "Connection: close\r\n"));
	CHECK(!strstr(behind.heard.at, "6.6.6.6") && !strstr(behind.heard.at, "evil"));
	CHECK(!strstr(behind.heard.at, "other") && !strstr(behind.heard.at, "X-Gone"));
	CHECK(!strstr(behind.heard.at, "Bearer") && !strstr(behind.heard.at, "h2c"));
	CHECK(!strstr(behind.heard.at, "HTTP2-Settings") && !strstr(behind.heard.at, "TE:"));
	unstage();
}

TASK_TEST(wide, "a server that has a path of an origin does not speak for the whole of it")
{
	static const char *const words[] = {"Service-Worker-Allowed", "Clear-Site-Data",
					    "strict-transport-security", "Alt-Svc"};
	auto_buf got = BUF_INIT(65536);

	for (int i = 0; i < 2; i++) {
		ways = (struct relay_options){.prefix = i ? STR("/8080-box-tok") : STR("")};
		stage("HTTP/1.1 200 OK\r\nService-Worker-Allowed: /\r\nClear-Site-Data: \"*\"\r\n"
		      "strict-transport-security: max-age=9\r\nAlt-Svc: h3=\":1\"\r\nX-Own: 1\r\n"
		      "Content-Length: 2\r\n\r\nok");
		talk_front("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &got);
		CHECK(house_status(&got) == 200 && strstr(got.at, "X-Own: 1"));
		for (size_t k = 0; k < 4; k++)
			CHECK(!strstr(got.at, words[k]) == (i == 1));
		unstage();
	}
}

TASK_TEST(hostile, "a server that answers nonsense is 502, and the client hears none of it")
{
	static const char *const says[] = {
		"",
		"nonsense\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nFOREIGN",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nFOREIGN",
		"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nFOREIGN",
		"HTTP/1.1 200 OK\nContent-Length: 5\n\nFOREIGN",
		"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nFOREIGN",
		"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\nFOREIGN",
		"HTTP/2 200 OK\r\n\r\nFOREIGN",
		"HTTP/1.1 99 OK\r\n\r\nFOREIGN",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nFOREIGN",
		"HTTP/1.1 200 OK\r\nContent-Length: 5",
	};
	auto_buf got = BUF_INIT(65536);

	for (size_t i = 0; i < sizeof(says) / sizeof(*says); i++) {
		stage(says[i]);
		talk_front("GET / HTTP/1.1\r\nHost: h\r\n\r\n", &got);
		if (house_status(&got) != 502 || strstr(got.at, "FOREIGN") ||
		    !strstr(got.at, "Connection: close")) {
			printf("# case %zu: %s\n", i, got.at);
			CHECK(!"502, closed");
		}
	}
	CHECK(front_failed == sizeof(says) / sizeof(*says));
	unstage();
}

TASK_TEST(hints, "a flood of 1xx is no answer, a few are passed over")
{
	auto_buf flood = BUF_INIT(65536), got = BUF_INIT(65536);

	stage("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" PLAIN);
	talk_front("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &got);
	CHECK(house_status(&got) == 200 && house_count(&got, "HTTP/1.1") == 1);
	for (int i = 0; i < 200; i++)
		buf_text(&flood, "HTTP/1.1 103 Early Hints\r\n\r\n");
	stage(flood.at);
	talk_front("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &got);
	CHECK(house_status(&got) == 502);
	unstage();
}

TASK_TEST(bad_chunks, "a body that breaks off or breaks the rules breaks off for the client too")
{
	static const char *const says[] = {
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\nFOREIGN",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0x5\r\nFOREIGN",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	};
	auto_buf got = BUF_INIT(65536);

	for (size_t i = 0; i < 3; i++) {
		stage(says[i]);
		talk_front("GET / HTTP/1.1\r\nHost: h\r\n\r\n", &got);
		CHECK(house_status(&got) == 200 && strstr(got.at, "abc"));
		CHECK(!strstr(got.at, "FOREIGN") && !strstr(got.at, "\r\n0\r\n"));
	}
	// A body longer than announced ends where it was announced to.
	stage("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 FOREIGN\r\n\r\n");
	talk_front("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", &got);
	CHECK(!strstr(got.at, "FOREIGN"));
	unstage();
}

TASK_TEST(never, "a server that never answers is 504 when its time is up")
{
	auto_buf got = BUF_INIT(65536);
	int64_t began = inside_now();

	ways.reply_ms = 100;
	behind.mute = true;
	stage("");
	talk_front("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &got);
	CHECK(house_status(&got) == 504 && inside_now() - began < 3000);
	unstage();
}

#define MUCH (8u << 20)

static void send_much(void *arg)
{
	static char piece[65536];

	for (size_t up = 0; up < MUCH; up += sizeof(piece))
		CHECK_OK(stream_write(arg, piece, sizeof(piece), 5000));
}

TASK_TEST(both_ways, "a large body goes up while its reply comes down")
{
	static char room[65536];
	struct stream stream;
	size_t down = 0, n = 1;

	house_open(NULL);
	open_front(house_port);
	dial_front(&stream);
	say(&stream, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 8388608\r\n"
		     "Connection: close\r\n\r\n");
	task_start(inside_loop, "send", send_much, &stream);
	for (; n; down += n) {
		n = 0;
		err_free(stream_read(&stream, room, sizeof(room), inside_now() + 5000, &n));
	}
	CHECK(down > MUCH);
	stream_close(&stream);
	http_server_free(take_ptr(front));
	house_close();
}

TASK_TEST(uploads, "uploads arrive whole, announced or in chunks, and the connection is kept")
{
	auto_buf got = BUF_INIT(65536);
	struct stream stream;

	house_open(NULL);
	open_front(house_port);
	dial_front(&stream);
	say(&stream, "POST /sum HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
		     "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
		     "POST /sum HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
		     "POST /sum HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
		     "Content-Length: 1\r\nConnection: close\r\n\r\na");
	house_hear(&stream, &got, 5000);
	CHECK(house_count(&got, "HTTP/1.1 200") == 3);
	CHECK(strstr(got.at, "5 495") && strstr(got.at, "3 294") && strstr(got.at, "1 97"));
	stream_close(&stream);
	http_server_free(take_ptr(front));
	house_close();
}

TASK_TEST(cut_upload, "a body that the client breaks off is no request that the server could take "
		      "for whole")
{
	struct stream stream;

	stage(PLAIN);
	behind.mute = true;
	dial_front(&stream);
	say(&stream, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
	inside_sleep(50);
	stream_close(&stream);
	for (int i = 0; i < 200 && !front_failed; i++)
		inside_sleep(5);
	CHECK(front_failed == 1);
	unstage();
}

TASK_TEST(websocket,
	  "a WebSocket is opened by the server's own word, and bytes follow, also those that "
	  "came with the heads")
{
	auto_buf got = BUF_INIT(65536);
	struct stream stream;

	behind.echo = true;
	stage("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	      "Sec-WebSocket-Accept: abc=\r\n\r\nfirst;");
	dial_front(&stream);
	say(&stream, "GET /ws HTTP/1.1\r\nHost: h.example\r\nUpgrade: websocket\r\n"
		     "Connection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
		     "Origin: http://h.example\r\n\r\nearly;");
	say(&stream, "late;");
	inside_sleep(30);
	say(&stream, "last;");
	shutdown(stream.fd, SHUT_WR);
	house_hear(&stream, &got, 5000);
	CHECK(house_status(&got) == 101 && strstr(got.at, "Sec-WebSocket-Accept: abc=\r\n"));
	CHECK(strstr(got.at, "\r\n\r\nfirst;early;late;last;"));
	CHECK(strstr(behind.heard.at, "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
	CHECK(strstr(behind.heard.at, "Sec-WebSocket-Key: x\r\n"));
	CHECK(strstr(behind.heard.at, "Origin: http://localhost:8080\r\n"));
	stream_close(&stream);
	unstage();
}

TASK_TEST(no_socket, "a server that refuses the upgrade is heard, one that switches to something "
		     "else is not")
{
	static const char ask[] = "GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n"
				  "Connection: Upgrade\r\nOrigin: http://other\r\n\r\n";
	auto_buf got = BUF_INIT(65536);

	stage("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
	talk_front(ask, &got);
	CHECK(house_status(&got) == 403 && strstr(got.at, "\r\n\r\nno"));
	CHECK(strstr(behind.heard.at, "Origin: http://other\r\n"));
	stage("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n");
	talk_front(ask, &got);
	CHECK(house_status(&got) == 502);
	unstage();
}

TASK_TEST(quiet_socket, "a socket on which nothing moves is closed when its time is up")
{
	auto_buf got = BUF_INIT(65536);
	int64_t began = inside_now();

	behind.echo = true;
	ways.idle_ms = 100;
	stage("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: "
	      "Upgrade\r\n\r\n");
	talk_front(
		"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		&got);
	CHECK(house_status(&got) == 101 && inside_now() - began < 3000);
	unstage();
}

TASK_TEST(methods, "methods that mean the connection are not passed on")
{
	auto_buf got = BUF_INIT(65536);

	house_open(NULL);
	open_front(house_port);
	talk_front("TRACE / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &got);
	CHECK(house_status(&got) == 405 && house_served == 0);
	http_server_free(take_ptr(front));
	house_close();
}

static const char *cookie(const char *value, const char *prefix, struct buf *out)
{
	buf_clear(out);
	relay_head_cookie(str_of(value), str_of(prefix), out);
	return out->at;
}

TEST(cookies, "a cookie is the preview's own: it names no domain and stays beneath its prefix")
{
	auto_buf out = BUF_INIT(4096);

	CHECK_STR(cookie("a=b; Domain=example.org; Path=/; Secure", "", &out),
		  "a=b; Path=/; Secure");
	CHECK_STR(cookie("a=b;path=/x ; domain = .org", "/8080-b-t", &out),
		  "a=b; Path=/8080-b-t/x");
	CHECK_STR(cookie("a=b; HttpOnly", "/p", &out), "a=b; HttpOnly");
	CHECK_STR(cookie("a=b; Path=x", "/p", &out), "a=b; Path=x");
}

static const char *location(const char *value, const char *prefix, struct buf *out)
{
	struct relay_options way = {.host = STR("localhost:8080"), .prefix = str_of(prefix)};

	buf_clear(out);
	relay_head_location(str_of(value), &way, out);
	return out->at;
}

TEST(redirects, "a redirect of the server to itself leads to the preview, others are left alone")
{
	auto_buf out = BUF_INIT(4096);

	CHECK_STR(location("/login", "", &out), "/login");
	CHECK_STR(location("/login", "/p", &out), "/p/login");
	CHECK_STR(location("http://localhost:8080/x?y", "", &out), "/x?y");
	CHECK_STR(location("http://LOCALHOST:8080", "/p", &out), "/p/");
	CHECK_STR(location("//localhost:8080/x", "/p", &out), "/p/x");
	CHECK_STR(location("http://localhost:80801/x", "/p", &out), "http://localhost:80801/x");
	CHECK_STR(location("https://example.org/x", "/p", &out), "https://example.org/x");
	CHECK_STR(location("//example.org/x", "/p", &out), "//example.org/x");
	CHECK_STR(location("next", "/p", &out), "next");
}

// Segments with data that came to the client.
static unsigned segments(const struct stream *stream)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	return info.tcpi_data_segs_in;
}

TASK_TEST(whole, "a reply that came in one piece leaves in one segment")
{
	auto_buf out = BUF_INIT(65536);
	struct stream stream;

	ways = (struct relay_options){0};
	stage("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
	dial_front(&stream);
	say(&stream, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	house_hear(&stream, &out, 5000);
	CHECK(strstr(out.at, "\r\n\r\nhello") && !strstr(out.at, "Content-Type"));
	CHECK(segments(&stream) == 1);
	stream_close(&stream);
	unstage();
}

// Two requests on one connection to the server, which stays the caller's.
static struct relay_conn lent;
static int lent_kept;

static fallible pass_on_lent(struct http *x)
{
	bool is_kept = false;
	struct relay_options way = {.loop = inside_loop,
				    .conn = &lent,
				    .is_kept = &is_kept,
				    .host = STR("localhost:8080"),
				    .path = x->url.path};
	struct err *err = relay_run(x, &way);

	lent_kept += is_kept;
	return err;
}

static void lent_serve(struct http *x)
{
	front_failed += pass_on_lent(x) != NULL;
}

static void run_two(void *arg)
{
	static const char *const says[] = {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none",
					   "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo!"};
	struct stream *stream = arg;
	char room[4096];
	size_t n = 1;

	for (int i = 0; i < 2 && n; i++) {
		CHECK_OK(stream_read(stream, room, sizeof(room), inside_now() + 5000, &n));
		CHECK_OK(stream_write(stream, says[i], strlen(says[i]), 5000));
	}
}

TASK_TEST(serves_again, "a connection of the caller's serves again, but not with a byte too many")
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	struct stream server, client;
	char room[4096];
	int pair[2], fd = -1;
	size_t n;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	CHECK_OK(stream_open(&lent.stream, inside_loop, pair[0]));
	CHECK_OK(stream_open(&server, inside_loop, pair[1]));
	front_failed = lent_kept = 0;
	CHECK_OK(dial_listen(STR("127.0.0.1:0"), &fd, &front_port));
	CHECK_OK(http_server_open(inside_loop, &limits, lent_serve, house_refuse, NULL, &front));
	CHECK_OK(http_server_listen(front, fd));
	task_start(inside_loop, "server", run_two, &server);
	dial_front(&client);
	for (int i = 0; i < 2; i++) {
		say(&client, request);
		CHECK_OK(stream_read(&client, room, sizeof(room) - 1, inside_now() + 5000, &n));
		room[n] = 0;
		CHECK(strstr(room, i ? "\r\n\r\ntwo" : "\r\n\r\none"));
		CHECK(lent_kept == 1 && lent.stream.fd >= 0);
	}
	CHECK(!front_failed && !strchr(room, '!'));
	stream_close(&client);
	stream_close(&server);
	relay_conn_close(&lent);
	unstage();
}
