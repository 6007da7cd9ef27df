#include "http/wspipe.h"

#include <sys/socket.h>

#include "base/mem.h"
#include "http/client.h"
#include "unit/http/house.h"

static int far; // the other end of what the server's side is connected to

static struct err *talk(struct http *x, struct wsock *ws, void *arg)
{
	struct stream stream = {.fd = -1};
	struct err *err;
	int pair[2];

	(void)x;
	(void)arg;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		abort();
	far = pair[1];
	TRY(stream_open(&stream, inside_loop, pair[0]));
	err = wspipe_run(inside_loop, ws, &stream);
	stream_close(&stream);
	return err;
}

struct near {
	struct http_client *client;
	struct wsock *ws;
	struct stream local;
	bool over;
};

static void run_near(void *arg)
{
	struct near *near = arg;

	err_free(wspipe_run(inside_loop, near->ws, &near->local));
	stream_close(&near->local);
	wsock_end(near->ws);
	wsock_unref(near->ws);
	near->over = true;
}

// A connection with a WebSocket in its middle: *mine is one end, *other the far one.
static void join(struct near *near, struct stream *mine, struct stream *other)
{
	auto_free char *url = NULL;
	int status = 0, pair[2];

	house_talks = talk;
	house_ws = WSPIPE_OPTIONS;
	house_open(NULL);
	url = mem_fmt("http://127.0.0.1:%u", house_port);
	*near = (struct near){0};
	far = -1;
	CHECK_OK(http_client_open(inside_loop, str_of(url), (struct str){NULL, 0}, &near->client));
	CHECK_OK(http_client_upgrade(near->client, "/ws", &house_ws, &status, &near->ws));
	CHECK(near->ws &&
	      !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	CHECK_OK(stream_open(&near->local, inside_loop, pair[0]));
	CHECK_OK(stream_open(mine, inside_loop, pair[1]));
	task_start(inside_loop, "near", run_near, near);
	for (int i = 0; i < 200 && far < 0; i++)
		inside_sleep(5);
	CHECK_OK(stream_open(other, inside_loop, far));
}

static void part(struct near *near, struct stream *mine, struct stream *other)
{
	stream_close(mine);
	stream_close(other);
	for (int i = 0; i < 600 && !near->over; i++)
		inside_sleep(5);
	CHECK(near->over);
	http_client_free(near->client);
	house_close();
	house_ws = (struct wsock_options){0};
}

static void send_much(void *arg)
{
	static char piece[65536];
	struct stream *stream = arg;

	for (int i = 0; i < 64; i++)
		CHECK_OK(stream_write(stream, piece, sizeof(piece), 5000));
	shutdown(stream->fd, SHUT_WR);
}

TASK_TEST(both_ways, "bytes go both ways, however many, and each half ends by itself")
{
	struct stream mine, other;
	auto_buf got = BUF_INIT(16 << 20);
	struct near near;

	join(&near, &mine, &other);
	task_start(inside_loop, "send", send_much, &mine);
	house_hear(&other, &got, 8000);
	CHECK(got.len == 4 << 20);
	// One half is over, the other is not.
	CHECK_OK(stream_write(&other, "answer", 6, 2000));
	shutdown(other.fd, SHUT_WR);
	buf_clear(&got);
	house_hear(&mine, &got, 5000);
	CHECK_STR(got.at, "answer");
	part(&near, &mine, &other);
}

TASK_TEST(lost, "the end of one side is the end of the other")
{
	struct stream mine, other;
	auto_buf got = BUF_INIT(65536);
	struct near near;

	join(&near, &mine, &other);
	stream_close(&other);
	house_hear(&mine, &got, 5000);
	CHECK(got.len == 0);
	part(&near, &mine, &other);
}
