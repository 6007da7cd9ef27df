#include "loop/dial.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "unit/loop/inside.h"

// Binds `port` of 127.0.0.1 without listening, so that no other process of this host answers there
// when "localhost" is dialed. -1: another process has it.
static int reserve_v4(uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return fd >= 0 && bind(fd, (void *)&at, sizeof(at)) == 0 ? take_fd(&fd) : -1;
}

static void greet(const char *address, const char *host)
{
	auto_fd listener = -1, reserved = -1;
	struct stream stream = {.fd = -1};
	uint16_t port = 0;
	auto_fd fd = -1;
	char room[8];
	size_t n = 0;

	for (int tries = 0; tries < 100; tries++) {
		if (listener >= 0)
			close(take_fd(&listener));
		CHECK_OK(dial_listen(str_of(address), &listener, &port));
		CHECK(port > 0);
		if (address[0] != '[')
			break;
		reserved = reserve_v4(port);
		if (reserved >= 0)
			break;
	}
	CHECK_OK(dial_tcp(inside_loop, str_of(host), port, inside_now() + 1000, &stream));
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(write(fd, "hi", 2) == 2);
	CHECK_OK(stream_read(&stream, room, sizeof(room), inside_now() + 1000, &n));
	CHECK(n == 2);
	stream_close(&stream);
}

TASK_TEST(v4, "an IPv4 listener is reached by address and as localhost")
{
	greet("127.0.0.1:0", "127.0.0.1");
	greet("127.0.0.1:0", "localhost");
}

TASK_TEST(v6, "an IPv6 listener is reached by address and as localhost")
{
	auto_fd probe = -1;
	uint16_t port;
	auto_err err = dial_listen(STR("[::1]:0"), &probe, &port);

	if (err) {
		printf("# skip: no IPv6 here\n");
		return;
	}
	greet("[::1]:0", "::1");
	greet("[::1]:0", "localhost");
}

TASK_TEST(first,
	  "of several addresses the first that answers is connected to, dead ones hold nobody up")
{
	// Nobody answers at the first: its listener has a full queue and drops what comes.
	const char hosts[][DIAL_HOST_TEXT] = {"127.0.0.3", "127.0.0.4", "127.0.0.5"};
	struct sockaddr_in at = {.sin_family = AF_INET};
	auto_fd full = -1, listener = -1;
	struct stream stream = {.fd = -1};
	int64_t since = clock_ms();
	size_t which = 9;
	uint16_t port = 0;
	int held[4];

	CHECK_OK(dial_listen(STR("127.0.0.5:0"), &listener, &port));
	full = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	at.sin_addr.s_addr = htonl(0x7f000003);
	at.sin_port = htons(port);
	CHECK(bind(full, (void *)&at, sizeof(at)) == 0 && listen(full, 0) == 0);
	for (int i = 0; i < 4; i++) {
		held[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)!connect(held[i], (void *)&at, sizeof(at));
	}
	CHECK_OK(dial_first(inside_loop, hosts, 3, port, inside_now() + 10000, &stream, &which));
	CHECK(which == 2 && clock_ms() - since < 5000);
	stream_close(&stream);
	// All refuse: that is told at once.
	since = clock_ms();
	CHECK_ERR(
		dial_first(inside_loop, hosts + 1, 1, port, inside_now() + 10000, &stream, &which),
		UNAVAILABLE);
	CHECK(clock_ms() - since < 5000);
	CHECK_ERR(dial_first(inside_loop, hosts, 1, port, inside_now() + 300, &stream, &which),
		  TIMEOUT);
	for (int i = 0; i < 4; i++)
		close(held[i]);
}

TASK_TEST(taken, "a port that is taken is a conflict")
{
	auto_fd listener = -1, second = -1;
	auto_free char *address = NULL;
	uint16_t port = 0;

	CHECK_OK(dial_listen(STR("127.0.0.1:0"), &listener, &port));
	address = mem_fmt("127.0.0.1:%u", port);
	CHECK_ERR(dial_listen(str_of(address), &second, &port), CONFLICT);
	CHECK(second == -1);
}

TASK_TEST(nobody, "a port without a listener is unavailable")
{
	struct stream stream = {.fd = -1};
	uint16_t port = 0;
	auto_fd listener = -1;

	CHECK_OK(dial_listen(STR("127.0.0.1:0"), &listener, &port));
	close(take_fd(&listener));
	CHECK_ERR(dial_tcp(inside_loop, STR("127.0.0.1"), port, inside_now() + 1000, &stream),
		  UNAVAILABLE);
	CHECK_ERR(dial_tcp(inside_loop, STR("localhost"), port, inside_now() + 1000, &stream),
		  UNAVAILABLE);
	CHECK_ERR(dial_tcp(inside_loop, STR("example.test"), port, inside_now() + 1000, &stream),
		  INVALID);
	CHECK(stream.fd == -1);
}

TEST(malformed, "addresses that are none are refused")
{
	static const char *const bad[] = {
		"",	    "127.0.0.1",  ":8484",	     "127.0.0.1:",
		"::1:80",   "[::1]",	  "127.0.0.1:65536", "127.0.0.1:+1",
		"host:80",  "[::1:80",	  "127.0.0.1:8x",    "[]:80",
		"1.2.3:80", "256.1.1.1:1"};
	auto_fd fd = -1;
	uint16_t port;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_ERR(dial_listen(str_of(bad[i]), &fd, &port), INVALID);
	CHECK_ERR(dial_listen(STR("192.0.2.1:0"), &fd, &port), INVALID);
	CHECK(fd == -1);
}

TASK_TEST(local, "a message socket at a path is reached, and a missing one is unavailable")
{
	auto_free char *dir = mem_fmt("/tmp/dial_test.%d", getpid());
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct stream stream = {.fd = -1};
	auto_fd listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	CHECK(mkdir(dir, 0700) == 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/sock", dir);
	CHECK_ERR(dial_local(inside_loop, at.sun_path, inside_now() + 100, &stream), UNAVAILABLE);
	CHECK(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(listener, 1) == 0);
	CHECK_OK(dial_local(inside_loop, at.sun_path, inside_now() + 1000, &stream));
	CHECK_OK(stream_send(&stream, "x", 1, NULL, 0, inside_now() + 1000));
	stream_close(&stream);
	unlink(at.sun_path);
	rmdir(dir);
}

TASK_TEST(no_files, "without a descriptor it is told so, and may be tried again")
{
	int lowest = dup(0), fd = -1;
	struct rlimit before, none;
	struct err *err;

	close(lowest);
	CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = (struct rlimit){(rlim_t)lowest, before.rlim_max};
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	err = dial_local_fd("/nonexistent", inside_now() + 1000, &fd);
	CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
	CHECK(err && err_kind(err) == ERR_EXHAUSTED && fd == -1);
	CHECK_STR(err_reason(err), "daemon_files");
	err_free(err);
}
