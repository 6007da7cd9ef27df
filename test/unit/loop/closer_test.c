#include "loop/closer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "os/fd.h"
#include "unit/loop/inside.h"

// The writing end of a pipe; *out_reader tells by its end when the last of them is closed.
static int watched(int *out_reader)
{
	int ends[2] = {-1, -1};

	(void)!pipe2(ends, O_CLOEXEC);
	*out_reader = ends[0];
	return ends[1];
}

static bool has_ended(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};

	return poll(&one, 1, 0) == 1 && one.revents & (POLLHUP | POLLERR | POLLRDHUP | POLLIN);
}

static void await_end(int fd)
{
	int64_t latest = clock_ms() + 10000;

	while (!has_ended(fd) && clock_ms() < latest)
		inside_sleep(1);
	CHECK(has_ended(fd));
	close(fd);
}

// A connection that has sent more than its peer takes, and whose close waits for a minute.
static int lingering(int *out_peer)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct linger minute = {.l_onoff = 1, .l_linger = 60};
	socklen_t len = sizeof(at);
	int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static const char bytes[65536]; // more than the stack of a task has room for

	if (bind(door, (struct sockaddr *)&at, len) || listen(door, 1) ||
	    getsockname(door, (struct sockaddr *)&at, &len) ||
	    connect(sock, (struct sockaddr *)&at, len))
		return -1;
	*out_peer = accept4(door, NULL, NULL, SOCK_CLOEXEC);
	while (send(sock, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		continue;
	close(door);
	return setsockopt(sock, SOL_SOCKET, SO_LINGER, &minute, sizeof(minute)) ? -1 : sock;
}

TASK_TEST(closes, "what is dropped is closed soon, in order, and forgotten at once")
{
	int reader, fd = watched(&reader), scope_reader;

	CHECK_OK(closer_open(inside_loop));
	closer_drop(&fd);
	CHECK(fd == -1);
	closer_drop(&fd);
	await_end(reader);
	{
		auto_closer_fd scope = watched(&scope_reader);

		CHECK(scope >= 0);
	}
	await_end(scope_reader);
	closer_close();
}

TASK_TEST(linger, "a socket that waits for its peer, and one inside of another, hold up neither "
		  "the loop nor the next")
{
	int peers[2], pair[2], reader;
	int plain = lingering(&peers[0]), nested = lingering(&peers[1]), fd = watched(&reader);
	int64_t before;

	CHECK_OK(closer_open(inside_loop));
	CHECK(plain >= 0 && nested >= 0 && fd >= 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(fd_send(pair[0], "x", 1, &nested, 1, 0) == 1);
	close(nested);
	close(pair[0]);
	before = clock_ms();
	closer_drop(&plain);
	closer_drop(&pair[1]);
	closer_drop(&fd);
	CHECK(clock_ms() - before < 1000);
	await_end(reader);
	closer_close();
	close(peers[0]);
	close(peers[1]);
}

TASK_TEST(leaked_all, "descriptors that come unasked are closed by the thread, too")
{
	int pair[2], reader, fd = watched(&reader);
	char room[8];

	CHECK_OK(closer_open(inside_loop));
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(fd_send(pair[0], "x", 1, &fd, 1, 0) == 1);
	close(fd);
	CHECK(fd_recv_bytes(pair[1], room, sizeof(room), NULL, MSG_DONTWAIT) == -1);
	await_end(reader);
	closer_close();
	close(pair[0]);
	close(pair[1]);
}

TEST(without, "without the thread everything is closed at once")
{
	int reader, fd = watched(&reader);

	closer_drop(&fd);
	CHECK(has_ended(reader));
	close(reader);
}
