// Servers and clients that do not do what one expects.
#include <errno.h>

#include "unit/egress/house.h"

#define ALLOW "{\"mode\":\"allow\",\"allow\":[\"up.test:%u\"]}"

// A server of one connection, by what it does.
static char heard[1 << 20];
static size_t have; // bytes of it
static void (*act)(int fd);

static void *serve_act(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = accept4(house.server, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			return NULL;
		house.accepted++;
		have = 0;
		act(fd);
		close(fd);
	}
}

static struct err *enter_act(void (*new_act)(int fd))
{
	signal(SIGPIPE, SIG_IGN);
	setenv("COVE_LOG_LEVEL", "error", 0);
	log_open("test", 2);
	house = (struct house){.server = -1, .live = -1};
	act = new_act;
	TRY(offload_open(inside_loop, 2));
	TRY(store_open(&(struct store_options){.loop = inside_loop, .dir = -1}, &house.store));
	TRY(open_egress());
	TRY(enter_box(ALLOW, true));
	pthread_create(&house.server_thread, NULL, serve_act, NULL);
	return OK;
}

static void say(int fd, const char *words)
{
	if (send(fd, words, strlen(words), MSG_NOSIGNAL) < 0)
		perror("send");
}

// Until the words have come on this connection, or the end.
static void hear(int fd, const char *words)
{
	ssize_t n;

	while (!memmem(heard, have, words, strlen(words)) && have < sizeof(heard) &&
	       (n = recv(fd, heard + have, sizeof(heard) - have, 0)) > 0)
		have += (size_t)n;
}

static void ask_once(struct client *client, const char *request)
{
	memset(client, 0, sizeof(*client));
	client->request = request;
	ask(client);
}

static struct client client; // one at a time

#define GET "GET / HTTP/1.1\r\nHost: up.test\r\nConnection: close\r\n\r\n"

static void act_garbage(int fd)
{
	hear(fd, "\r\n\r\n");
	say(fd, "NOPE nope nope\r\n\r\n");
}

TASK_TEST(garbage, "a server that answers garbage is 502")
{
	CHECK_OK(enter_act(act_garbage));
	ask_once(&client, GET);
	CHECK(strncmp(client.reply, "HTTP/1.1 502 ", 13) == 0);
	leave_house();
}

static void act_hang_up(int fd)
{
	hear(fd, "\r\n\r\n");
}

TASK_TEST(hang_up, "a server that closes without a reply is 502, one that cuts its body is cut")
{
	CHECK_OK(enter_act(act_hang_up));
	ask_once(&client, GET);
	CHECK(strncmp(client.reply, "HTTP/1.1 502 ", 13) == 0);
	leave_house();
}

static void act_two_lengths(int fd)
{
	hear(fd, "\r\n\r\n");
	say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
		"0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

TASK_TEST(two_lengths, "a reply with two framings is 502")
{
	CHECK_OK(enter_act(act_two_lengths));
	ask_once(&client, GET);
	CHECK(strncmp(client.reply, "HTTP/1.1 502 ", 13) == 0);
	leave_house();
}

static void act_continue(int fd)
{
	hear(fd, "\r\n\r\n");
	say(fd, "HTTP/1.1 100 Continue\r\n\r\n");
	hear(fd, "0\r\n\r\n");
	say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
}

TASK_TEST(expects, "a 100 goes through before the body, chunks both ways")
{
	CHECK_OK(enter_act(act_continue));
	ask_once(&client, "POST / HTTP/1.1\r\nHost: up.test\r\nExpect: 100-continue\r\n"
			  "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
			  "3\r\nabc\r\n0\r\n\r\n");
	CHECK(strncmp(client.reply, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ", 38) == 0);
	CHECK(strstr(client.reply, "5\r\nhello\r\n0\r\n\r\n") != NULL);
	leave_house();
}

static void act_refuse_early(int fd)
{
	hear(fd, "\r\n\r\n");
	say(fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
	usleep(300000);
}

TASK_TEST(early, "a reply before the end of a request is passed on, and the connection ends")
{
	CHECK_OK(enter_act(act_refuse_early));
	ask_once(&client, "POST / HTTP/1.1\r\nHost: up.test\r\nContent-Length: 1000000\r\n\r\nabc");
	CHECK(strncmp(client.reply, "HTTP/1.1 413 ", 13) == 0);
	CHECK(egress_box_counts(house.box).open == 0);
	leave_house();
}

static void act_until_close(int fd)
{
	hear(fd, "\r\n\r\n");
	say(fd, "HTTP/1.0 200 OK\r\n\r\nall there is");
}

TASK_TEST(until_close, "a reply without a length ends with its connection")
{
	CHECK_OK(enter_act(act_until_close));
	ask_once(&client, "GET / HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK(strstr(client.reply, "all there is") != NULL);
	leave_house();
}

static void act_tell(int fd)
{
	hear(fd, "\r\n\r\n");
	heard[have] = 0;
	say(fd, strcasestr(heard, "upgrade") ? "HTTP/1.1 101 Now\r\nUpgrade: h2c\r\n\r\n"
					     : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

TASK_TEST(h2c, "an offer of HTTP/2, which nobody could follow, does not reach the server")
{
	static const char *const offers[] = {
		"Upgrade: h2c\r\nHTTP2-Settings: AA\r\nConnection: Upgrade, HTTP2-Settings, close",
		"Upgrade: H2C\r\nConnection: upgrade, close",
		"Upgrade: websocket\r\nUpgrade: h2c\r\nConnection: upgrade, close",
		"Upgrade: websocket\r\nConnection: close", // which is none
	};

	CHECK_OK(enter_act(act_tell));
	for (int i = 0; i < 4; i++) {
		auto_buf request = BUF_INIT(4096);

		buf_fmt(&request, "GET / HTTP/1.1\r\nHost: up.test\r\n%s\r\n\r\n", offers[i]);
		ask_once(&client, request.at);
		CHECK(strncmp(client.reply, "HTTP/1.1 200 ", 13) == 0);
	}
	leave_house();
}

TASK_TEST(other_101, "a server that changes to what nobody asked for is 502")
{
	CHECK_OK(enter_act(act_tell));
	ask_once(&client, "GET / HTTP/1.1\r\nHost: up.test\r\nUpgrade: websocket\r\n"
			  "Connection: upgrade\r\n\r\nPRI * HTTP/2.0\r\n\r\n");
	CHECK(strncmp(client.reply, "HTTP/1.1 502 ", 13) == 0);
	CHECK(!memmem(heard, have, "PRI", 3));
	leave_house();
}

static void act_once(int fd)
{
	hear(fd, "\r\n\r\n");
	say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

TASK_TEST(redials, "each connection to a server counts, also behind one that stays")
{
	struct egress_counts counts;

	CHECK_OK(enter_act(act_once));
	{
		auto_policy policy = POLICY_INIT(POLICY_OFF);

		CHECK_OK(read_policy("{\"mode\":\"allow\",\"allow\":[\"up.test:%u\","
				     "\"deep.up.test:%u\"],\"budgets\":{\"connections\":2}}",
				     &policy));
		egress_box_policy(house.box, &policy);
	}
	ask_once(&client, "GET / HTTP/1.1\r\nHost: up.test\r\n\r\n"
			  "GET / HTTP/1.1\r\nHost: deep.up.test\r\n\r\n"
			  "GET / HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK(strstr(client.reply, "HTTP/1.1 429 ") && strstr(client.reply, "budget_connections"));
	counts = egress_box_counts(house.box);
	CHECK(house.accepted == 2);
	CHECK(counts.connections == 2 && counts.requests == 2 && counts.open == 0);
	leave_house();
}

static atomic_bool stop_filling;

static void act_fill(int fd)
{
	static char piece[1 << 16];

	hear(fd, "\r\n\r\n");
	say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n");
	while (!stop_filling && send(fd, piece, sizeof(piece), MSG_NOSIGNAL) > 0)
		;
}

TASK_TEST(never_reads, "a client that never reads holds little, and goes when its box does")
{
	uint64_t before = 0, after = 1;
	int fd;

	stop_filling = false;
	CHECK_OK(enter_act(act_fill));
	fd = connect_box();
	CHECK(send(fd, GET, strlen(GET), 0) > 0);
	for (int i = 0; i < 50; i++) { // until nothing moves any more
		before = egress_box_counts(house.box).bytes_in;
		inside_sleep(200);
		after = egress_box_counts(house.box).bytes_in;
		if (before && before == after)
			break;
	}
	CHECK(before == after && after < 32u << 20);
	egress_box_free(house.box);
	house.box = NULL;
	inside_sleep(50);
	stop_filling = true;
	close(fd);
	leave_house();
}

static void act_echo(int fd)
{
	char room[4096];
	ssize_t n;

	while ((n = recv(fd, room, sizeof(room), 0)) > 0)
		send(fd, room, (size_t)n, MSG_NOSIGNAL);
}

// The hello of a real client, cut into single bytes.
TASK_TEST(fragments, "NET-6: a hello that comes byte by byte is carried whole")
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(context);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	char *hello, room[4096];
	size_t back = 0;
	long len;
	int fd, on = 1;

	CHECK_OK(enter_act(act_echo));
	SSL_set_bio(ssl, in, out);
	SSL_set_tlsext_host_name(ssl, "up.test");
	SSL_connect(ssl);
	len = BIO_get_mem_data(out, &hello);
	fd = connect_box();
	setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof(on));
	for (long i = 0; i < len; i++) {
		CHECK(send(fd, hello + i, 1, 0) == 1);
		if (i % 8 == 0)
			inside_sleep(1);
		if (i < len - 1)
			CHECK(house.accepted == 0);
	}
	for (int i = 0; i < 400 && back < (size_t)len; i++) {
		ssize_t n = recv(fd, room + back, sizeof(room) - back, MSG_DONTWAIT);

		back += n > 0 ? (size_t)n : 0;
		inside_sleep(5);
	}
	CHECK(back == (size_t)len && memcmp(room, hello, back) == 0);
	close(fd);
	SSL_free(ssl);
	SSL_CTX_free(context);
	leave_house();
}

TASK_TEST(bad_hello, "N-04: a broken hello is denied, nothing is connected")
{
	static const char bad[] = "\x16\x03\x01\x00\x10\x02\x00\x00\x0c zzzzzzzzzzzz";
	char room[16];
	ssize_t n = -1;
	int fd;

	CHECK_OK(enter_act(act_echo));
	fd = connect_box();
	CHECK(send(fd, bad, sizeof(bad) - 1, 0) > 0);
	for (int i = 0; i < 200 && n < 0; i++) {
		inside_sleep(5);
		n = recv(fd, room, sizeof(room), MSG_DONTWAIT);
	}
	CHECK(n == 7 && room[0] == 0x15 && room[6] == 49);
	CHECK(house.accepted == 0);
	close(fd);
	leave_house();
}
