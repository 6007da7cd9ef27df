#include "egress/private.h"
#include "unit/egress/house.h"

#define ALLOW "{\"mode\":\"allow\",\"allow\":[\"up.test:%u\",\"home.test:%u\",\"meta.test:%u\"]}"
#define GET(host) "GET / HTTP/1.1\r\nHost: " host "\r\nConnection: close\r\n\r\n"

TASK_TEST(passes, "NET-6: a request to an allowed name arrives and is recorded")
{
	auto_free struct client *client = mem_new_of(struct client);
	auto_arena arena = arena_new();
	struct store_egress_page page;
	struct egress_counts counts;

	CHECK_OK(enter_house(false, ALLOW));
	client->request = GET("UP.test.");
	ask(client);
	CHECK(strncmp(client->reply, "HTTP/1.1 200 ", 13) == 0);
	CHECK(strstr(client->reply, "Host: UP.test.") != NULL);
	page = read_ledger(arena, 1);
	CHECK(page.count == 1);
	CHECK_STR(page.at[0].name, "up.test");
	CHECK_STR(page.at[0].address, "127.0.0.2");
	CHECK(page.at[0].allowed && page.at[0].requests == 1 && page.at[0].port == house.port);
	CHECK(page.at[0].bytes_out == strlen(client->request));
	CHECK(page.at[0].bytes_in == client->len);
	counts = egress_box_counts(house.box);
	CHECK(counts.connections == 1 && counts.requests == 1 && !counts.opaque);
	CHECK(counts.bytes_in == client->len && page.sums.bytes_in == client->len);
	leave_house();
}

TASK_TEST(denies,
	  "N-01: another name gets 403 with the line that would allow it, and no connection")
{
	auto_free struct client *client = mem_new_of(struct client);
	auto_arena arena = arena_new();
	struct store_egress_page page;

	CHECK_OK(enter_house(false, ALLOW));
	client->request = GET("other.test");
	ask(client);
	CHECK(strncmp(client->reply, "HTTP/1.1 403 ", 13) == 0);
	CHECK(strstr(client->reply, "cove policy ") != NULL);
	CHECK(strstr(client->reply, "other.test") != NULL);
	CHECK(house.accepted == 0);
	page = read_ledger(arena, 1);
	CHECK(page.count == 1 && !page.at[0].allowed && page.sums.denied == 1);
	CHECK_STR(page.at[0].name, "other.test");
	CHECK_STR(page.at[0].reason, "not_allowed");
	CHECK(egress_box_counts(house.box).connections == 0);
	leave_house();
}

TASK_TEST(each_host, "NET-6: on a kept connection each request's Host is judged anew")
{
	auto_free struct client *client = mem_new_of(struct client);

	CHECK_OK(enter_house(false, ALLOW));
	client->request = "GET /1 HTTP/1.1\r\nHost: up.test\r\n\r\n"
			  "POST /2 HTTP/1.1\r\nHost: up.test\r\nContent-Length: 5\r\n\r\nhello"
			  "GET /3 HTTP/1.1\r\nHost: evil.test\r\n\r\n";
	ask(client);
	CHECK(strstr(client->reply, "GET /1 ") != NULL);
	CHECK(strstr(client->reply, "hello") != NULL);
	CHECK(strstr(client->reply, "HTTP/1.1 403 ") != NULL);
	CHECK(house.requests == 2 && house.accepted == 1);
	CHECK(egress_box_counts(house.box).requests == 2);
	leave_house();
}

TASK_TEST(kept, "a connection that is kept is in the ledger before it is closed, each request once")
{
	static const char request[] = "GET /1 HTTP/1.1\r\nHost: up.test\r\n\r\n";
	auto_arena arena = arena_new();
	struct store_egress_page page;
	char room[4096];
	int fd;

	CHECK_OK(enter_house(false, ALLOW));
	fd = connect_box();
	for (int i = 1; i <= 2; i++) {
		CHECK(send(fd, request, strlen(request), 0) > 0);
		page = read_ledger(arena, (size_t)i);
		CHECK(recv(fd, room, sizeof(room), MSG_DONTWAIT) > 0);
		CHECK(page.count == (size_t)i && page.sums.requests == (uint64_t)i);
		CHECK(page.sums.connections == 1 && house.accepted == 1);
	}
	close(fd);
	leave_house();
}

TASK_TEST(smuggling, "a request that can be read in two ways is refused: 400")
{
	static const char *const bad[] = {
		("POST / HTTP/1.1\r\nHost: up.test\r\nContent-Length: 5\r\n"
		 "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		"GET / HTTP/1.1\r\nHost: up.test\r\nHost: evil.test\r\n\r\n",
		"GET http://evil.test/ HTTP/1.1\r\nHost: up.test\r\n\r\n",
		"CONNECT evil.test:443 HTTP/1.1\r\nHost: up.test\r\n\r\n",
		"GET / HTTP/1.1\nHost: up.test\n\n",
	};

	CHECK_OK(enter_house(false, ALLOW));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		auto_free struct client *client = mem_new_of(struct client);

		client->request = bad[i];
		ask(client);
		CHECK(strncmp(client->reply, "HTTP/1.1 400 ", 13) == 0);
	}
	CHECK(house.accepted == 0);
	leave_house();
}

TASK_TEST(raw, "N-04: bytes of no known kind to a bare address are reset, nothing is connected")
{
	auto_free struct client *client = mem_new_of(struct client);

	CHECK_OK(enter_house(false, ALLOW));
	client->request = "SSH-2.0-test\r\n";
	ask(client);
	CHECK(client->len == 0 && house.accepted == 0);
	CHECK(egress_box_counts(house.box).denied == 1);
	leave_house();
}

TASK_TEST(not_global,
	  "N-10, N-12: an allowed name that leads to the host or its metadata is refused")
{
	auto_arena arena = arena_new();
	struct store_egress_page page;

	CHECK_OK(enter_house(false, ALLOW));
	for (int i = 0; i < 2; i++) {
		auto_free struct client *client = mem_new_of(struct client);

		client->request = i ? GET("meta.test") : GET("home.test");
		ask(client);
		CHECK(strncmp(client->reply, "HTTP/1.1 403 ", 13) == 0);
		CHECK(strstr(client->reply, "not_global") != NULL);
	}
	page = read_ledger(arena, 2);
	CHECK(page.count == 2 && !page.at[1].allowed && page.sums.denied == 2);
	CHECK(page.sums.connections == 0 && page.sums.requests == 0);
	CHECK(egress_box_counts(house.box).requests == 0);
	leave_house();
}

// ------------------------------------------------------------------------------------- budgets

#define MANY 64

static int count_replies(struct client **clients, const char *start)
{
	int count = 0;

	for (int i = 0; i < MANY; i++)
		count += strncmp(clients[i]->reply, start, strlen(start)) == 0;
	return count;
}

static void ask_many(struct client **clients, const char *request)
{
	for (int i = 0; i < MANY; i++) {
		clients[i] = mem_new_of(struct client);
		clients[i]->request = request;
		client_start(clients[i]);
	}
	for (int i = 0; i < MANY; i++)
		client_await(clients[i]);
}

static void free_many(struct client **clients)
{
	for (int i = 0; i < MANY; i++)
		free(clients[i]);
}

#define BUDGET(what) "{\"mode\":\"allow\",\"allow\":[\"up.test:%u\"],\"budgets\":{" what "}}"

TASK_TEST(requests, "of 64 requests at once with a budget of 10, ten arrive and 54 get 429")
{
	struct client *clients[MANY];
	auto_arena arena = arena_new();
	struct store_egress_page page;

	CHECK_OK(enter_house(false, BUDGET("\"requests\":10,\"perSecond\":1000")));
	ask_many(clients, GET("up.test"));
	CHECK(house.requests == 10);
	CHECK(count_replies(clients, "HTTP/1.1 200 ") == 10);
	CHECK(count_replies(clients, "HTTP/1.1 429 ") == 54);
	// Denials beyond 50 a second are one row, recorded when it is over.
	page = read_ledger(arena, 10 + 50 + 1);
	CHECK(page.sums.requests == 10 && page.sums.denied == 54);
	CHECK(page.sums.connections == 10 && page.count == 10 + 50 + 1);
	free_many(clients);
	leave_house();
}

TASK_TEST(bytes, "bytes in are exact: what 64 clients got is the budget to the byte")
{
	struct client *clients[MANY];
	uint64_t total = 0;

	CHECK_OK(enter_house(false, BUDGET("\"bytesIn\":300000,\"perSecond\":1000")));
	ask_many(clients, "GET /big/20000 HTTP/1.1\r\nHost: up.test\r\nConnection: close\r\n\r\n");
	for (int i = 0; i < MANY; i++)
		if (strncmp(clients[i]->reply, "HTTP/1.1 200 ", 13) == 0)
			total += clients[i]->len;
	// One that was cut off may have been told less than was sent to it.
	CHECK(egress_box_counts(house.box).bytes_in == 300000);
	CHECK(total <= 300000 && total > 200000);
	free_many(clients);
	leave_house();
}

#define SLOWLY "{\"mode\":\"allow\",\"allow\":[\"up.test:%u\"],\"budgets\":{\"perSecond\":10}}"

TASK_TEST(rate, "connections beyond the rate wait for their turn, 5 s at most, then they are reset")
{
	struct egress_counts counts;
	int64_t since = clock_ms();

	CHECK_OK(enter_house(false, SLOWLY));
	for (int i = 0; i < 100; i++) {
		int fd = connect_box();

		CHECK(fd >= 0);
		close(fd);
		if (i % 20 == 0)
			inside_sleep(1);
	}
	inside_sleep(500);
	CHECK(egress_box_counts(house.box).denied == 0 || clock_ms() - since > 5000);
	for (int i = 0; i < 1000 && egress_box_counts(house.box).denied < 20; i++)
		inside_sleep(10);
	counts = egress_box_counts(house.box);
	CHECK(clock_ms() - since >= 4900);
	CHECK(counts.denied >= 20 && counts.denied <= 60);
	leave_house();
}

// -------------------------------------------------------------------------------- policy, life

TASK_TEST(live, "PATCH: the next verdict is by the new policy, and what it forbids is ended")
{
	auto_free struct client *first = mem_new_of(struct client);
	auto_free struct client *second = mem_new_of(struct client);
	auto_policy policy = POLICY_INIT(POLICY_OFF);

	CHECK_OK(enter_house(false, ALLOW));
	first->request = "GET /up HTTP/1.1\r\nHost: up.test\r\nConnection: upgrade\r\n"
			 "Upgrade: websocket\r\n\r\nping";
	client_start(first);
	for (int i = 0; i < 500 && first->total < strlen(upgrade) + 4; i++)
		inside_sleep(10);
	CHECK(egress_box_counts(house.box).open == 1);
	CHECK_OK(read_policy("{\"mode\":\"allow\",\"allow\":[\"other.test:%u\"]}", &policy));
	egress_box_policy(house.box, &policy);
	client_await(first);
	CHECK(strncmp(first->reply, "HTTP/1.1 101 ", 13) == 0 && strstr(first->reply, "ping"));
	CHECK(egress_box_counts(house.box).open == 0);
	second->request = GET("up.test");
	ask(second);
	CHECK(strncmp(second->reply, "HTTP/1.1 403 ", 13) == 0);
	CHECK(house.accepted == 1);
	leave_house();
}

TASK_TEST(remembers, "what was used stays used when a box is taken up again")
{
	auto_free struct client *client = mem_new_of(struct client);
	auto_free struct client *again = mem_new_of(struct client);
	auto_arena arena = arena_new();

	CHECK_OK(enter_house(false, BUDGET("\"requests\":1")));
	client->request = again->request = GET("up.test");
	ask(client);
	CHECK(strncmp(client->reply, "HTTP/1.1 200 ", 13) == 0);
	egress_box_free(house.box);
	CHECK(read_ledger(arena, 1).count == 1);
	CHECK_OK(enter_box(BUDGET("\"requests\":1"), false));
	CHECK(egress_box_counts(house.box).requests == 1);
	ask(again);
	CHECK(strncmp(again->reply, "HTTP/1.1 429 ", 13) == 0);
	leave_house();
}

TASK_TEST(last_words, "denials while a box goes away are recorded, and nothing is due later")
{
	struct egress_box *box;
	auto_arena arena = arena_new();
	struct store_egress_page page;

	CHECK_OK(enter_house(false, ALLOW));
	box = take_ptr(house.box);
	box->holders++; // as a connection that has not ended yet
	egress_box_free(box);
	for (int i = 0; i < 60; i++)
		judge_note_many(box, "rate");
	CHECK(box->rest != NULL);
	egress_box_drop(box);
	inside_sleep(1100);
	page = read_ledger(arena, 51);
	CHECK(page.count == 51 && page.sums.denied == 60);
	leave_house();
}

// --------------------------------------------------------------------------------------- names

static size_t query(const char *labels, size_t len, uint8_t type, uint8_t *out, size_t size)
{
	static const uint8_t head[12] = {0x12, 0x34, 0x01, 0, 0, 1};
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(house.udp),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint8_t tail[4] = {0, type, 0, 1}, room[300];
	auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ssize_t n = -1;

	memcpy(room, head, 12);
	memcpy(room + 12, labels, len + 1);
	memcpy(room + 13 + len, tail, 4);
	sendto(fd, room, 17 + len, 0, (void *)&to, sizeof(to));
	for (int i = 0; i < 100 && n < 0; i++) {
		inside_sleep(5);
		n = recv(fd, out, size, 0);
	}
	return n < 0 ? 0 : (size_t)n;
}

TASK_TEST(names, "an allowed name has a synthetic address of each family; another does not exist")
{
	uint8_t reply[512];
	size_t n;

	CHECK_OK(enter_house(false, ALLOW));
	n = query("\2up\4test", 8, 1, reply, sizeof(reply));
	CHECK(n > 28 && (reply[3] & 15) == 0 && reply[7] == 1);
	CHECK(reply[n - 4] == 198 && (reply[n - 3] & 0xfe) == 18);
	n = query("\2up\4test", 8, 28, reply, sizeof(reply));
	CHECK(n > 28 && (reply[3] & 15) == 0 && reply[7] == 1);
	CHECK(reply[n - 16] == 0xfd && reply[n - 4] == 198 && (reply[n - 3] & 0xfe) == 18);
	n = query("\4evil\4test", 10, 1, reply, sizeof(reply));
	CHECK(n > 12 && (reply[3] & 15) == 3 && reply[7] == 0);
	leave_house();
}

TASK_TEST(many_names, "of 1,200 questions at once 1,000 are answered in a second, then the others")
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	static const char asked[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0\2up\4test\0\0\1\0\1";
	auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char room[512];
	int got = 0;

	CHECK_OK(enter_house(false, ALLOW));
	to.sin_port = htons(house.udp);
	for (int i = 0; i < 1200; i++) {
		sendto(fd, asked, sizeof(asked) - 1, 0, (void *)&to, sizeof(to));
		if (i % 50 == 49)
			inside_sleep(1);
		while (recv(fd, room, sizeof(room), 0) > 0)
			got++;
	}
	for (int i = 0; i < 600 && got < 1200; i++) {
		inside_sleep(5);
		while (recv(fd, room, sizeof(room), 0) > 0)
			got++;
	}
	CHECK(got == 1200);
	leave_house();
}
