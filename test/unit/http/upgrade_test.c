#include "http/upgrade.h"

#include "base/mem.h"
#include "http/client.h"
#include "unit/http/house.h"

static struct http_client *client;
static struct wsock *mine;
static int ended_with;

static void meet(upgrade_fn *talks)
{
	auto_free char *url = NULL;
	int status = 0;

	house_talks = talks;
	ended_with = 0;
	house_open(NULL);
	url = mem_fmt("http://127.0.0.1:%u", house_port);
	CHECK_OK(http_client_open(inside_loop, str_of(url), (struct str){NULL, 0}, &client));
	CHECK_OK(http_client_upgrade(client, "/ws", NULL, &status, &mine));
	CHECK(status == 101 && mine);
}

static void leave(void)
{
	wsock_end(mine);
	wsock_unref(mine);
	http_client_free(client);
	house_close();
	house_ws = (struct wsock_options){0};
}

static struct err *echo(struct http *x, struct wsock *ws, void *arg)
{
	struct wsock_message message;

	(void)x;
	(void)arg;
	for (;;) {
		TRY(wsock_recv(ws, CLOCK_NEVER, &message));
		if (message.kind == WSOCK_CLOSED) {
			ended_with = message.code;
			return OK;
		}
		TRY(wsock_send(ws, message.kind, message.body));
	}
}

static struct wsock_message hear(void)
{
	struct wsock_message message = {.kind = WSOCK_CLOSED};

	err_free(wsock_recv(mine, inside_now() + 20000, &message));
	return message;
}

TASK_TEST(echoes, "messages go both ways, small, large and empty, and both sides say goodbye")
{
	auto_free char *large = mem_grow(NULL, 3 << 20, 1);
	struct wsock_message message;

	meet(echo);
	CHECK_OK(wsock_send(mine, WSOCK_TEXT, STR("hello")));
	message = hear();
	CHECK(message.kind == WSOCK_TEXT && str_is(message.body, "hello"));
	CHECK_OK(wsock_send(mine, WSOCK_BINARY, STR("")));
	message = hear();
	CHECK(message.kind == WSOCK_BINARY && message.body.len == 0);
	for (size_t i = 0; i < 3 << 20; i++)
		large[i] = (char)(i * 7 + i / 251);
	CHECK_OK(wsock_send(mine, WSOCK_BINARY, (struct str){large, 3 << 20}));
	message = hear();
	CHECK(message.body.len == 3 << 20 && memcmp(message.body.at, large, 3 << 20) == 0);
	CHECK_OK(wsock_begin(mine, WSOCK_TEXT));
	CHECK_OK(wsock_piece(mine, STR("in ")));
	CHECK_OK(wsock_piece(mine, STR("pieces")));
	CHECK_OK(wsock_finish(mine));
	CHECK(str_is(hear().body, "in pieces"));
	wsock_close(mine, 4001, "enough");
	CHECK(hear().kind == WSOCK_CLOSED);
	CHECK_ERR(wsock_send(mine, WSOCK_TEXT, STR("late")), CANCELLED);
	inside_sleep(20);
	CHECK(ended_with == 4001);
	leave();
}

// Sends raw bytes as a client would and returns all that the server says, closing the stream.
static void raw(const char *head, const void *frames, size_t len, struct buf *out)
{
	struct stream stream;

	buf_clear(out);
	house_dial(&stream);
	err_free(stream_write(&stream, head, strlen(head), 1000));
	err_free(stream_write(&stream, frames, len, 1000));
	house_hear(&stream, out, 5000);
	stream_close(&stream);
}

#define UPGRADE                                                                                    \
	"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

TASK_TEST(refusals, "a malformed upgrade is refused, and a plain request is 404")
{
	static const struct {
		const char *head;
		int status;
	} rows[] = {
		{ASK("GET", "/ws"), 404},
		{"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 404},
		{"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		 "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		 426},
		{"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		 "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n",
		 400},
		{"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		 "Sec-WebSocket-Version: 13\r\n\r\n",
		 400},
		{"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		 "Content-Length: 1\r\nSec-WebSocket-Version: 13\r\n"
		 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nx",
		 400},
	};
	auto_buf out = BUF_INIT(1 << 16);

	house_talks = echo;
	house_open(NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		house_talk(str_of(rows[i].head), &out);
		CHECK(house_status(&out) == rows[i].status);
	}
	house_close();
}

TASK_TEST(early, "frames that come with the request are read; the connection carries no HTTP then")
{
	auto_buf out = BUF_INIT(1 << 16);

	house_talks = echo;
	house_open(NULL);
	raw(UPGRADE "\x81\x82MASK\x25\x28", "\x88\x80WXYZ", 6, &out); // "hi", close
	CHECK(house_status(&out) == 101);
	CHECK(strstr(out.at, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
	CHECK(out.len > 6 && memcmp(out.at + out.len - 6, "\x81\x02hi\x88\0", 6) == 0);
	raw(UPGRADE, ASK("GET", "/hello"), sizeof(ASK("GET", "/hello")) - 1, &out);
	CHECK(house_count(&out, "HTTP/1.1") == 1); // "GE" is a malformed frame: closed with 1002
	CHECK(memmem(out.at, out.len, "\x03\xea", 2));
	house_close();
}

TASK_TEST(pings, "a ping is answered, and an idle peer is pinged and then given up")
{
	auto_buf out = BUF_INIT(1 << 16);

	house_talks = echo;
	house_ws.ping_ms = 30;
	house_open(NULL);
	raw(UPGRADE, "\x89\x81\0\0\0\0p", 7, &out); // then silence: the server gives up
	CHECK(memmem(out.at, out.len, "\x8a\x01p", 3));
	CHECK(memmem(out.at, out.len, "\x89\0", 2));
	CHECK(ended_with == WS_ABNORMAL);
	house_close();
	meet(echo);
	for (int i = 0; i < 5; i++) {
		struct wsock_message message;

		CHECK_ERR(wsock_recv(mine, inside_now() + 30, &message), TIMEOUT);
	}
	CHECK_OK(wsock_send(mine, WSOCK_TEXT, STR("still here")));
	CHECK(str_is(hear().body, "still here"));
	leave();
}

TASK_TEST(limits, "a message past the limit closes with 1009")
{
	auto_free char *large = mem_new(2000);

	house_ws.max = 1000;
	meet(echo);
	memset(large, 'a', 2000);
	CHECK_OK(wsock_send(mine, WSOCK_TEXT, (struct str){large, 1000}));
	CHECK(hear().body.len == 1000);
	CHECK_OK(wsock_send(mine, WSOCK_TEXT, (struct str){large, 1001}));
	CHECK(hear().code == WS_TOO_BIG);
	leave();
}

TASK_TEST(drains, "a server that drains closes with 1001")
{
	meet(echo);
	CHECK_OK(wsock_send(mine, WSOCK_TEXT, STR("x")));
	hear();
	http_server_drain(house_server);
	CHECK(hear().code == WS_GOING_AWAY);
	for (int i = 0; i < 100 && !http_server_idle(house_server); i++)
		inside_sleep(10);
	CHECK(http_server_idle(house_server));
	leave();
}

static int flood_failed;

static void flood_task(void *arg)
{
	static char bytes[65536];
	struct wsock *ws = arg;
	struct err *err = OK;

	while (!err)
		err = wsock_send(ws, WSOCK_BINARY, (struct str){bytes, sizeof(bytes)});
	flood_failed++;
	err_free(err);
	wsock_unref(ws);
}

// Three tasks that send to somebody who does not read.
static struct err *flood(struct http *x, struct wsock *ws, void *arg)
{
	for (int i = 0; i < 3; i++) {
		wsock_ref(ws);
		task_start(inside_loop, "flood", flood_task, ws);
	}
	return echo(x, ws, arg);
}

TASK_TEST(slow, "a reader that is too slow is closed, for every sender")
{
	house_ws.silence_ms = 100;
	flood_failed = 0;
	meet(flood);
	inside_sleep(400);
	CHECK(flood_failed == 3 && ended_with == WS_ABNORMAL);
	leave();
}

TASK_TEST(vanishes, "a peer that vanishes ends the senders")
{
	flood_failed = 0;
	meet(flood);
	inside_sleep(50);
	CHECK(flood_failed == 0);
	wsock_end(mine);
	wsock_unref(mine);
	http_client_free(client);
	for (int i = 0; i < 100 && flood_failed < 3; i++)
		inside_sleep(10);
	CHECK(flood_failed == 3);
	house_close();
}
