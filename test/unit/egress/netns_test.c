// In a network namespace as a box has it, with the kernel's steering: whatever address a client
// uses, it ends here.
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "os/net.h"
#include "os/steer.h"
#include "unit/egress/house.h"

static int home = -1, away = -1, link_fd = -1;

// NULL, or why not.
static const char *enter_net(int *out_listener, int *out_udp)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	auto_fd sock = -1;
	const char *why = NULL;

	home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (home < 0 || unshare(CLONE_NEWNET))
		return "no network namespace can be made here";
	away = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (ioctl(sock, SIOCSIFFLAGS, &lo) || net_anyip() || net_listen(0, out_listener, out_udp))
		why = "its loopback cannot be made";
	else if ((link_fd = steer_sk_lookup(away, *out_listener)) < 0)
		why = "this kernel does not steer by sk_lookup";
	if (setns(home, CLONE_NEWNET))
		abort();
	return why;
}

static int socket_away(int type)
{
	int fd;

	if (setns(away, CLONE_NEWNET))
		abort();
	fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	if (setns(home, CLONE_NEWNET))
		abort();
	return fd;
}

static int connect_away(const uint8_t address[4], uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket_away(SOCK_STREAM);

	memcpy(&to.sin_addr, address, 4);
	if (connect(fd, (void *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool send_and_read(int fd, const char *words, char *room, size_t size)
{
	size_t have = 0;
	ssize_t n = 1;

	if (*words && send(fd, words, strlen(words), MSG_NOSIGNAL) < 0)
		return false;
	for (int i = 0; i < 600 && n != 0; i++) {
		n = recv(fd, room + have, size - 1 - have, MSG_DONTWAIT);
		if (n > 0)
			have += (size_t)n;
		else if (n < 0 && errno != EAGAIN)
			break;
		else if (n < 0)
			inside_sleep(5);
	}
	room[have] = 0;
	return true;
}

// Asks any resolver for up.test, over UDP or TCP.
static bool ask_name(int type, uint8_t out[4])
{
	static const char asked[] = "\0\x19\x12\x34\1\0\0\1\0\0\0\0\0\0\2up\4test\0\0\1\0\1";
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
	bool tcp = type == SOCK_STREAM;
	auto_fd fd = socket_away(type);
	uint8_t room[512];
	ssize_t n = -1;

	to.sin_addr.s_addr = htonl(0xcb007108); // 203.0.113.8
	if (connect(fd, (void *)&to, sizeof(to)) ||
	    send(fd, asked + (tcp ? 0 : 2), sizeof(asked) - 1 - (tcp ? 0 : 2), 0) < 0)
		return false;
	for (int i = 0; i < 200 && n < 0; i++) {
		inside_sleep(5);
		n = recv(fd, room, sizeof(room), MSG_DONTWAIT);
	}
	if (n < 30)
		return false;
	memcpy(out, room + n - 4, 4);
	return out[0] == 198 && (out[1] & 0xfe) == 18;
}

static void *greet_first(void *arg)
{
	int fd = accept4(*(int *)arg, NULL, NULL, SOCK_CLOEXEC);

	if (fd >= 0) {
		send(fd, "220 hello\r\n", 11, MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

#define ALLOW "{\"mode\":\"allow\",\"allow\":[\"up.test:%u\"]"
#define BOUND ",\"inspect\":[\"up.test\"],\"rules\":[{\"name\":\"up.test\",\"methods\":[\"GET\"]}]}"

static const char *open_net_house(void)
{
	static const char words[] = ALLOW "}";
	auto_policy policy = POLICY_INIT(POLICY_OFF);
	int listener = -1, udp = -1;
	uint16_t port = 0;
	const char *why = enter_net(&listener, &udp);

	if (why)
		return why;
	house = (struct house){.live = -1, .server = listen_at("127.0.0.2", 0, &port)};
	house.port = port;
	err_free(offload_open(inside_loop, 2));
	err_free(store_open(&(struct store_options){.loop = inside_loop, .dir = -1}, &house.store));
	err_free(open_egress());
	err_free(read_policy(words, &policy));
	err_free(egress_box_new(house.egress,
				&(struct egress_box_spec){.id = BOX,
							  .tenant = "acme",
							  .policy = &policy,
							  .listener = listener,
							  .udp = udp,
							  .fresh = true},
				&house.box));
	return house.box ? NULL : "the way out could not be opened";
}

static void close_net_house(void)
{
	egress_box_free(house.box);
	egress_close(house.egress);
	close(house.server);
	store_close(house.store);
	offload_close();
	close(link_fd);
	close(away);
	close(home);
}

TASK_TEST(net,
	  "NET-2, NET-5, NET-6: names by any resolver, servers that speak first, bare addresses")
{
	static const uint8_t world[4] = {203, 0, 113, 6};
	auto_policy bound = POLICY_INIT(POLICY_OFF);
	uint8_t at[4], again[4];
	pthread_t thread;
	char room[4096];
	const char *why = open_net_house();
	int fd;

	if (why) {
		printf("# SKIP %s\n", why);
		CHECK(!getenv("COVE_TEST_MUST"));
		return;
	}
	CHECK(ask_name(SOCK_DGRAM, at));
	CHECK(ask_name(SOCK_STREAM, again));
	CHECK(memcmp(at, again, 4) == 0);

	// A server that speaks first, by the name behind the synthetic address.
	pthread_create(&thread, NULL, greet_first, &house.server);
	fd = connect_away(at, house.port);
	CHECK(fd >= 0);
	CHECK(send_and_read(fd, "", room, sizeof(room)));
	pthread_join(thread, NULL);
	CHECK_STR(room, "220 hello\r\n");
	close(fd);
	CHECK(egress_box_counts(house.box).connections == 1);

	// The same bytes to an address of the world: nobody is connected.
	fd = connect_away(world, house.port);
	CHECK(fd >= 0);
	CHECK(send_and_read(fd, "SSH-2.0-x\r\n", room, sizeof(room)));
	CHECK_STR(room, "");
	close(fd);
	// A Host decides, whatever the address: N-02.
	pthread_create(&thread, NULL, greet_first, &house.server);
	fd = connect_away(world, house.port);
	CHECK(send_and_read(fd, "GET / HTTP/1.0\r\nHost: up.test\r\n\r\n", room, sizeof(room)));
	pthread_join(thread, NULL);
	CHECK(strncmp(room, "HTTP/1.1 502 ", 13) == 0); // it is no server of HTTP
	close(fd);
	CHECK(egress_box_counts(house.box).connections == 2);
	CHECK(egress_box_counts(house.box).denied == 1);

	// Where rules bind its requests, nothing passes that shows none.
	CHECK_OK(read_policy(ALLOW BOUND, &bound));
	egress_box_policy(house.box, &bound);
	fd = connect_away(at, house.port);
	CHECK(send_and_read(fd, "SSH-2.0-x\r\n", room, sizeof(room)));
	CHECK_STR(room, "");
	close(fd);
	CHECK(egress_box_counts(house.box).connections == 2);
	CHECK(egress_box_counts(house.box).denied == 2);
	close_net_house();
}

// ------------------------------------------------------------------------------ who speaks, when

static atomic_int told; // bytes that the server got
static atomic_bool stop;

// Greets where it is told to, then says what it hears.
static void *echo_one(void *arg)
{
	const char *greeting = arg;
	struct pollfd asked = {.fd = house.server, .events = POLLIN};
	char room[1024];
	ssize_t n;
	int fd;

	while (poll(&asked, 1, 5) == 0)
		if (stop)
			return NULL;
	fd = accept4(house.server, NULL, NULL, SOCK_CLOEXEC);
	if (*greeting)
		send(fd, greeting, strlen(greeting), MSG_NOSIGNAL);
	while ((n = recv(fd, room, sizeof(room), 0)) > 0) {
		told += (int)n;
		send(fd, room, (size_t)n, MSG_NOSIGNAL);
	}
	close(fd);
	return NULL;
}

// What a client of up.test hears that says `first`, waits, and says the rest.
static void converse(const uint8_t at[4], const char *greeting, struct str first, int wait_ms,
		     struct str rest, char *room, size_t size)
{
	pthread_t thread;
	size_t have = 0;
	int fd;

	told = 0;
	stop = false;
	pthread_create(&thread, NULL, echo_one, (void *)greeting);
	fd = connect_away(at, house.port);
	CHECK(fd >= 0);
	if (first.len)
		send(fd, first.at, first.len, MSG_NOSIGNAL);
	inside_sleep(wait_ms);
	if (rest.len)
		send(fd, rest.at, rest.len, MSG_NOSIGNAL);
	for (int i = 0; i < 160 && have + 1 < size; i++) {
		ssize_t n = recv(fd, room + have, size - 1 - have, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			break;
		have += n > 0 ? (size_t)n : 0;
		if (have >= strlen(greeting) + first.len + rest.len)
			break;
		inside_sleep(5);
	}
	room[have] = 0;
	close(fd);
	stop = true;
	while (pthread_tryjoin_np(thread, NULL))
		inside_sleep(2);
}

// A hello for a name of eleven letters.
#define HELLO_FOR(name)                                                                            \
	"\x16\x03\x01\x00\x43\x01\x00\x00\x3f\x03\x03"                                             \
	"01234567890123456789012345678901"                                                         \
	"\x00\x00\x02\x13\x01\x01\x00\x00\x14\x00\x00\x00\x10\x00\x0e\x00\x00\x0b" name

// One that names nobody.
static const char plain_hello[] = "\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03"
				  "01234567890123456789012345678901"
				  "\x00\x00\x02\x13\x01\x01\x00";

static const struct {
	const char *what, *greeting;
	struct str first;
	int wait_ms;
	struct str rest;
	const char *heard; // NULL: nothing but the greeting, and the server got nothing
} talks[] = {
	{"a server that speaks first", "220 hi\r\n", STR(""), 400, STR("EHLO me\r\n"),
	 "220 hi\r\nEHLO me\r\n"},
	{"one that waits for a slow client", "", STR(""), 400, STR("EHLO me\r\n"), "EHLO me\r\n"},
	{"a client that speaks at once", "", STR("SSH-2.0-OpenSSH_9 x\r\n"), 0, STR(""),
	 "SSH-2.0-OpenSSH_9 x\r\n"},
	{"a word without an end", "", STR("ruok"), 0, STR(""), "ruok"},
	{"a command that looks like a method", "", STR("get key\r\n"), 0, STR(""), "get key\r\n"},
	{"zeros in the first line", "", STR("0032git-upload-pack /p\0host=a"), 0, STR(""),
	 "0032git-upload-pack /p"},
	{"a greeting for the same one",
	 "",
	 STR(""),
	 400,
	 {plain_hello, sizeof(plain_hello) - 1},
	 "\x16\x03\x01"},
	{"a greeting that comes late", "", STR(""), 400, STR(HELLO_FOR("up.test.abc")), NULL},
	{"behind words of the server", "220 hi\r\n", STR(""), 400, STR(HELLO_FOR("evil.tested")),
	 NULL},
	{"a request that comes late", "", STR(""), 400,
	 STR("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), NULL},
	{"behind blank lines", "", STR("\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), 0,
	 STR(""), NULL},
	{"in small letters", "", STR("get / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), 0, STR(""),
	 NULL},
	{"by a method nobody knows", "", STR("M-SEARCH * HTTP/1.1\r\nHost: evil.test\r\n\r\n"), 0,
	 STR(""), NULL},
};

TASK_TEST(protocols, "NET-6: neither silence nor blank lines hide whom a connection wants; other "
		     "protocols pass")
{
	const char *why = open_net_house();
	char room[4096];
	uint8_t at[4];

	if (why) {
		printf("# SKIP %s\n", why);
		CHECK(!getenv("COVE_TEST_MUST"));
		return;
	}
	CHECK(ask_name(SOCK_DGRAM, at));
	for (size_t i = 0; i < sizeof(talks) / sizeof(*talks); i++) {
		uint64_t denied = egress_box_counts(house.box).denied;
		const char *heard = talks[i].heard;

		converse(at, talks[i].greeting, talks[i].first, talks[i].wait_ms, talks[i].rest,
			 room, sizeof(room));
		if (heard && strcmp(room, heard) != 0)
			printf("# %s: %s\n", talks[i].what, room);
		if (heard)
			CHECK_STR(room, heard);
		else if (told || egress_box_counts(house.box).denied != denied + 1)
			printf("# %s: %d\n", talks[i].what, (int)told);
		CHECK(heard ? told > 0 : told == 0);
		CHECK(egress_box_counts(house.box).denied == denied + !heard);
	}
	close_net_house();
}

TASK_TEST(shown, "where requests are inspected or counted, what is neither TLS nor HTTP is denied")
{
	static const char *const bound[] = {ALLOW ",\"inspect\":[\"up.test\"]}",
					    ALLOW ",\"budgets\":{\"requests\":5}}"};
	static const char *const reasons[] = {"not_http", "not_counted"};
	const char *why = open_net_house();
	struct store_egress_page page;
	auto_arena arena = arena_new();
	char room[4096];
	uint8_t at[4];

	if (why) {
		printf("# SKIP %s\n", why);
		CHECK(!getenv("COVE_TEST_MUST"));
		return;
	}
	CHECK(ask_name(SOCK_DGRAM, at));
	for (size_t i = 0; i < 2; i++) {
		auto_policy policy = POLICY_INIT(POLICY_OFF);

		CHECK_OK(read_policy(bound[i], &policy));
		egress_box_policy(house.box, &policy);
		converse(at, "", STR("SSH-2.0-x\r\n"), 0, STR(""), room, sizeof(room));
		CHECK(told == 0);
		page = read_ledger(arena, i + 1);
		CHECK(page.count == i + 1);
		CHECK_STR(page.at[i].reason, reasons[i]);
	}
	// Silence is waited for, and never passed on.
	converse(at, "220 hi\r\n", STR(""), 700, STR(HELLO_FOR("evil.tested")), room, sizeof(room));
	CHECK(told == 0 && !strstr(room, "220"));
	close_net_house();
}

TASK_TEST(dialing, "PATCH: what is being connected when its name is to be inspected does not go on")
{
	auto_policy before = POLICY_INIT(POLICY_OFF), after = POLICY_INIT(POLICY_OFF);
	struct sockaddr_in to = {.sin_family = AF_INET};
	const char *why = open_net_house();
	char room[4096];
	uint8_t at[4];
	int fd, full[3];

	if (why) {
		printf("# SKIP %s\n", why);
		CHECK(!getenv("COVE_TEST_MUST"));
		return;
	}
	CHECK(ask_name(SOCK_DGRAM, at));
	CHECK_OK(read_policy("{\"mode\":\"all\"}", &before));
	CHECK_OK(read_policy("{\"mode\":\"all\",\"inspect\":[\"up.test\"]}", &after));
	egress_box_policy(house.box, &before);
	// A server whose queue is full takes nobody.
	CHECK(listen(house.server, 0) == 0);
	to.sin_port = htons(house.port);
	inet_pton(AF_INET, "127.0.0.2", &to.sin_addr);
	for (int i = 0; i < 3; i++) {
		full[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)connect(full[i], (void *)&to, sizeof(to)); // its queue is full
	}
	fd = connect_away(at, house.port);
	CHECK(send(fd, plain_hello, sizeof(plain_hello) - 1, MSG_NOSIGNAL) > 0);
	inside_sleep(200);
	CHECK(egress_box_counts(house.box).open == 1);
	egress_box_policy(house.box, &after);
	CHECK(send_and_read(fd, "", room, sizeof(room)));
	CHECK(egress_box_counts(house.box).open == 0);
	CHECK(egress_box_counts(house.box).connections == 0);
	close(fd);
	for (int i = 0; i < 3; i++)
		close(full[i]);
	close_net_house();
}
