#include "loop/stream.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "os/fd.h"
#include "unit/loop/inside.h"

static struct stream left, right;
static size_t got;

static void open_pair(int type)
{
	int ends[2];

	left = right = (struct stream){.fd = -1};
	CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
	CHECK_OK(stream_open(&left, inside_loop, ends[0]));
	CHECK_OK(stream_open(&right, inside_loop, ends[1]));
}

static void close_pair(void)
{
	stream_close(&left);
	stream_close(&right);
	stream_close(&right); // harmless twice
}

static void echo(void *arg)
{
	char room[4096];
	size_t n = 0;

	(void)arg;
	do {
		CHECK_OK(stream_read(&right, room, sizeof(room), CLOCK_NEVER, &n));
		CHECK_OK(stream_write(&right, room, n, 1000));
	} while (n > 0);
	stream_close(&right);
}

TASK_TEST(echoes, "what is written comes back, then the end")
{
	char room[64];
	size_t n = 99;

	open_pair(SOCK_STREAM);
	task_start(inside_loop, "echo", echo, NULL);
	for (int i = 0; i < 100; i++) {
		CHECK_OK(stream_write(&left, "hello", 5, 1000));
		CHECK_OK(stream_read(&left, room, sizeof(room), inside_now() + 1000, &n));
		CHECK(n == 5 && memcmp(room, "hello", 5) == 0);
	}
	shutdown(left.fd, SHUT_WR);
	CHECK_OK(stream_read(&left, room, sizeof(room), inside_now() + 1000, &n));
	CHECK(n == 0);
	CHECK(left.bytes_in == 500 && left.bytes_out == 500);
	close_pair();
}

static void drink(void *arg)
{
	char room[5000];
	size_t n = 0;

	do {
		if (arg)
			inside_sleep(1);
		CHECK_OK(stream_read(&right, room, sizeof(room), inside_now() + 5000, &n));
		for (size_t i = 0; i < n; i++)
			if (room[i] != (char)((got + i) * 7))
				CHECK(!"the bytes are those that were sent");
		got += n;
	} while (n > 0);
}

TASK_TEST(backpressure, "a slow reader gets every byte, in order, of a vector too large to hold")
{
	enum { SIZE = 1 << 20 };
	char *bytes = mem_new(SIZE);
	struct iovec parts[40] = {{0}};
	int slow = 1;

	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (char)(i * 7);
	for (int i = 0; i < 40; i++) // every other part is empty
		parts[i] = (struct iovec){bytes + SIZE / 20 * (i / 2), i % 2 ? 0 : SIZE / 20};
	open_pair(SOCK_STREAM);
	got = 0;
	task_start(inside_loop, "drink", drink, &slow);
	CHECK_OK(stream_writev(&left, parts, 40, 1000));
	CHECK(left.bytes_out == SIZE / 20 * 20);
	stream_close(&left);
	while (task_count() > 1)
		inside_sleep(1);
	CHECK(got == SIZE / 20 * 20);
	close_pair();
	free(bytes);
}

TASK_TEST(silence, "neither a silent writer nor a silent reader is waited for past the deadline")
{
	char *bytes = mem_new(1 << 22);
	char c;
	size_t n = 99;

	open_pair(SOCK_STREAM);
	CHECK_ERR(stream_read(&left, &c, 1, inside_now() + 10, &n), TIMEOUT);
	CHECK_ERR(stream_wait_readable(&left, inside_now() + 10), TIMEOUT);
	CHECK(n == 99);
	CHECK_ERR(stream_write(&left, bytes, 1 << 22, 10), TIMEOUT);
	close_pair();
	free(bytes);
}

TASK_TEST(gone, "a peer that is gone is told as such, without a signal")
{
	auto_err err = NULL;
	char c;
	size_t n = 99;

	open_pair(SOCK_STREAM);
	stream_close(&right);
	for (int i = 0; i < 2 && !err; i++)
		err = stream_write(&left, "x", 1, 1000);
	CHECK(err && err_kind(err) == ERR_BAD_PEER);
	CHECK_STR(err_reason(err), "peer_gone");
	CHECK_OK(stream_wait_readable(&left, inside_now() + 1000));
	CHECK_OK(stream_read(&left, &c, 1, inside_now() + 1000, &n));
	CHECK(n == 0);
	close_pair();
}

static void closer(void *arg)
{
	inside_sleep(5);
	stream_close(arg);
}

TASK_TEST(closed, "closing a stream wakes whoever waits on it")
{
	char c;
	size_t n = 99;

	open_pair(SOCK_STREAM);
	task_start(inside_loop, "closer", closer, &left);
	CHECK_ERR(stream_read(&left, &c, 1, CLOCK_NEVER, &n), BAD_PEER);
	CHECK_ERR(stream_read(&left, &c, 1, CLOCK_NEVER, &n), BAD_PEER);
	CHECK_ERR(stream_write(&left, "x", 1, 1000), BAD_PEER);
	close_pair();
}

static void try_read(void *arg)
{
	char c;
	size_t n;

	(void)arg;
	CHECK_ERR(stream_read(&left, &c, 1, CLOCK_NEVER, &n), CANCELLED);
	CHECK(!left.reader);
}

TASK_TEST(cancelled, "a cancelled read leaves the stream as it was")
{
	struct task *task;
	char room[2];
	size_t n = 0;

	open_pair(SOCK_STREAM);
	task = task_start(inside_loop, "read", try_read, NULL);
	inside_sleep(2);
	task_cancel(task);
	inside_sleep(2);
	CHECK_OK(stream_write(&right, "ok", 2, 1000));
	CHECK_OK(stream_read(&left, room, 2, inside_now() + 1000, &n));
	CHECK(n == 2);
	close_pair();
}

TASK_TEST(messages, "messages keep their borders, and fds travel beside them")
{
	int fds[4] = {-1, -1, -1, -1}, count = 99;
	char room[64];
	size_t n = 99;
	int ends[2];

	open_pair(SOCK_SEQPACKET);
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	CHECK_OK(stream_send(&left, "one", 3, ends, 2, inside_now() + 1000));
	CHECK_OK(stream_send(&left, "three", 5, NULL, 0, inside_now() + 1000));
	CHECK_OK(stream_recv(&right, room, sizeof(room), fds, 4, &count, &n, inside_now() + 1000));
	CHECK(n == 3 && count == 2);
	CHECK(fcntl(fds[0], F_GETFD) == FD_CLOEXEC);
	CHECK(write(ends[1], "x", 1) == 1 && read(fds[0], room, 1) == 1);
	close(fds[0]);
	close(fds[1]);
	CHECK_OK(stream_recv(&right, room, sizeof(room), fds, 4, &count, &n, inside_now() + 1000));
	CHECK(n == 5 && count == 0);
	CHECK_ERR(stream_recv(&right, room, sizeof(room), fds, 4, &count, &n, inside_now() + 5),
		  TIMEOUT);

	CHECK_OK(stream_send(&left, "too many", 8, ends, 2, inside_now() + 1000));
	CHECK_ERR(stream_recv(&right, room, sizeof(room), fds, 1, &count, &n, inside_now() + 1000),
		  BAD_PEER);
	stream_close(&left);
	CHECK_OK(stream_recv(&right, room, sizeof(room), fds, 4, &count, &n, inside_now() + 1000));
	CHECK(n == 0);
	close(ends[0]);
	close(ends[1]);
	close_pair();
}

static void send_many(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++)
		CHECK_OK(stream_send(&left, &i, sizeof(i), NULL, 0, inside_now() + 5000));
	stream_close(&left);
}

TASK_TEST(many_messages, "a sender of messages waits for a slow receiver")
{
	int want = 0, count, i;
	size_t n = 1;

	open_pair(SOCK_SEQPACKET);
	task_start(inside_loop, "send", send_many, NULL);
	inside_sleep(5);
	while (n > 0) {
		CHECK_OK(stream_recv(&right, &i, sizeof(i), NULL, 0, &count, &n,
				     inside_now() + 5000));
		CHECK(n == 0 || i == want++);
	}
	CHECK(want == 1000);
	close_pair();
}

TASK_TEST(shared, "a peer who kept a copy of the socket and makes it block makes nobody wait")
{
	struct stream stream;
	static char room[1 << 16];
	int64_t began;
	int pair[2];
	size_t n;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK_OK(stream_open(&stream, inside_loop, pair[0]));
	CHECK(fd_nonblock(pair[0], false) == 0);
	began = inside_now();
	CHECK_ERR(stream_read(&stream, room, sizeof(room), began + 20, &n), TIMEOUT);
	for (int i = 0; i < 64; i++) {
		auto_err err = stream_write(&stream, room, sizeof(room), 20);

		if (err) {
			CHECK(err_kind(err) == ERR_TIMEOUT);
			break;
		}
		CHECK(i < 63);
	}
	CHECK(inside_now() - began < 5000);
	stream_close(&stream);
	close(pair[1]);
}

TASK_TEST(files, "a file and a pipe are streams as well")
{
	int fd = memfd_create("file", MFD_CLOEXEC), ends[2];
	char room[16];
	size_t n = 0;

	CHECK(write(fd, "text", 4) == 4 && lseek(fd, 0, SEEK_SET) == 0);
	CHECK_OK(stream_open(&left, inside_loop, fd));
	CHECK_OK(stream_wait_readable(&left, inside_now() + 1000));
	CHECK_OK(stream_read(&left, room, sizeof(room), inside_now() + 1000, &n));
	CHECK(n == 4);
	CHECK_OK(stream_read(&left, room, sizeof(room), inside_now() + 1000, &n));
	CHECK(n == 0);
	stream_close(&left);

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	CHECK_OK(stream_open(&left, inside_loop, ends[0]));
	CHECK_OK(stream_open(&right, inside_loop, ends[1]));
	CHECK_OK(stream_write(&right, "pipe", 4, 1000));
	CHECK_OK(stream_wait_readable(&left, inside_now() + 1000));
	CHECK_OK(stream_read(&left, room, sizeof(room), inside_now() + 1000, &n));
	CHECK(n == 4);
	close_pair();
}

TASK_TEST(terminal, "lines that wait in a terminal are all read, though each read is short")
{
	int master, slave;
	char room[64];
	size_t n = 0;

	CHECK(openpty(&master, &slave, NULL, NULL, NULL) == 0);
	CHECK_OK(stream_open(&left, inside_loop, slave));
	CHECK(write(master, "a\nbb\n", 5) == 5);
	CHECK_OK(stream_read(&left, room, sizeof(room), inside_now() + 1000, &n));
	CHECK(n == 2);
	CHECK_OK(stream_wait_readable(&left, inside_now() + 1000));
	CHECK_OK(stream_read(&left, room, sizeof(room), inside_now() + 1000, &n));
	CHECK(n == 3);
	stream_close(&left);
	close(master);
}

static void flood(void *arg)
{
	(void)arg;
	for (;;) {
		static char bytes[65536];
		auto_err err = stream_write(&right, bytes, sizeof(bytes), 1000);

		if (err)
			return;
	}
}

TASK_TEST(fairness, "two ends that never wait for each other still let others run")
{
	struct task *task;
	int64_t until;
	int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);

	left = (struct stream){.fd = -1};
	CHECK(fd >= 0);
	CHECK_OK(stream_open(&right, inside_loop, fd)); // swallows everything at once
	task = task_start(inside_loop, "flood", flood, NULL);
	until = clock_ms() + 50;
	CHECK_OK(task_sleep_until(inside_now() + 20));
	CHECK(clock_ms() < until + 500);
	task_cancel(task);
	inside_sleep(5);
	CHECK(task_count() == 1);
	close_pair();
}

static void speak(void *arg)
{
	(void)arg;
	inside_sleep(5);
	CHECK_OK(stream_write(&right, "no", 2, 1000));
}

TASK_TEST(offer, "an offer ends when the peer speaks first")
{
	static char bytes[1 << 20];
	size_t n = 1, total = 0;

	open_pair(SOCK_STREAM);
	task_start(inside_loop, "speak", speak, NULL);
	while (n > 0) {
		CHECK_OK(stream_offer(&left, bytes, sizeof(bytes), inside_now() + 5000, &n));
		total += n;
	}
	CHECK(total > 0);
	CHECK(left.readable);
	close_pair();
}

static void answer(void *arg)
{
	size_t *total = arg, n = 1;
	static char room[1 << 16];

	CHECK_OK(stream_write(&right, "ok", 2, 1000));
	for (; n > 0; *total += n)
		CHECK_OK(stream_read(&right, room, sizeof(room), inside_now() + 5000, &n));
}

TASK_TEST(offer_after_answer, "an offer after an answer that was read is written whole")
{
	static char bytes[1 << 20];
	char word[2];
	size_t n = 0, total = 0, sent = 0;

	open_pair(SOCK_STREAM);
	task_start(inside_loop, "answer", answer, &total);
	CHECK_OK(stream_read(&left, word, sizeof(word), inside_now() + 5000, &n));
	CHECK(n == sizeof(word) && left.readable);
	while (sent < sizeof(bytes)) {
		CHECK_OK(stream_offer(&left, bytes, sizeof(bytes) - sent, inside_now() + 5000, &n));
		CHECK(n > 0);
		if (n == 0)
			break;
		sent += n;
	}
	shutdown(left.fd, SHUT_WR);
	while (total < sent && task_count() > 1)
		inside_sleep(5);
	CHECK(total == sizeof(bytes));
	close_pair();
}
