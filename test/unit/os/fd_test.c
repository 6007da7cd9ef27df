#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

TEST(carry, "fds travel beside a message, close-on-exec, and in their order")
{
	int pair[2], fds[2] = {-1, -1}, sent[2], count = 2;
	char room[16];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(pipe(sent) == 0);
	CHECK(fd_send(pair[0], "hello", 5, sent, 2, 0) == 5);
	CHECK(fd_recv(pair[1], room, sizeof(room), fds, &count, 0) == 5);
	CHECK(count == 2 && fcntl(fds[0], F_GETFD) == FD_CLOEXEC);
	CHECK(write(fds[1], "x", 1) == 1 && read(sent[0], room, 1) == 1);
	for (int i = 0; i < 2; i++) {
		fd_drop(&fds[i]);
		fd_drop(&sent[i]);
		fd_drop(&pair[i]);
	}
	CHECK(fds[0] == -1);
}

TEST(too_many, "more fds than there is room for are EPROTO, and none stays open")
{
	int pair[2], fds[1] = {-1}, sent[2], count = 1, before, after;
	char room[16];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(pipe(sent) == 0);
	before = dup(0);
	close(before);
	CHECK(fd_send(pair[0], "hello", 5, sent, 2, 0) == 5);
	errno = 0;
	CHECK(fd_recv(pair[1], room, sizeof(room), fds, &count, 0) == -1 && errno == EPROTO);
	after = dup(0);
	close(after);
	CHECK(before == after && count == 0);
	CHECK(fd_send(pair[0], "far too long a message", 22, NULL, 0, 0) == 22);
	CHECK(fd_recv(pair[1], room, sizeof(room), NULL, NULL, 0) == -1 && errno == EPROTO);
	for (int i = 0; i < 2; i++) {
		fd_drop(&sent[i]);
		fd_drop(&pair[i]);
	}
}

// No fd can be made from here on, or `more` of them.
static void fill(struct rlimit *old, int more)
{
	struct rlimit tight;
	int lowest = dup(0);

	close(lowest);
	getrlimit(RLIMIT_NOFILE, old);
	tight = *old;
	tight.rlim_cur = (rlim_t)(lowest + more);
	setrlimit(RLIMIT_NOFILE, &tight);
}

TEST(full, "a process without free numbers loses the fds, but not the message")
{
	int pair[2], fds[2] = {-1, -1}, sent[2], count, before, after;
	struct rlimit old;
	char room[16];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(pipe(sent) == 0);
	before = dup(0);
	close(before);
	for (int more = 0; more < 2; more++) {
		CHECK(fd_send(pair[0], "hello", 5, sent, 2, 0) == 5);
		CHECK(fd_send(pair[0], "hello", 5, sent, 2, 0) == 5);
		fill(&old, more);
		count = 2;
		CHECK(fd_recv_any(pair[1], room, sizeof(room), fds, &count, 0) == 5);
		CHECK(count == FD_LOST && memcmp(room, "hello", 5) == 0);
		count = 2;
		CHECK(fd_recv(pair[1], room, sizeof(room), fds, &count, 0) == -1);
		CHECK(errno == EMFILE && count == 0);
		setrlimit(RLIMIT_NOFILE, &old);
	}
	after = dup(0);
	close(after);
	CHECK(before == after);
	for (int i = 0; i < 2; i++) {
		fd_drop(&sent[i]);
		fd_drop(&pair[i]);
	}
}

TEST(senders,
     "bytes are told apart by the process that wrote them, and descriptors among them are EPROTO")
{
	char room[16];
	int pair[2], sender = 0, child;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(write(pair[0], "before", 6) == 6);
	CHECK(fd_recv_bytes(pair[1], room, sizeof(room), &sender, 0) == 6 && sender == 0);
	CHECK(fd_ask_sender(pair[1]) == 0);
	CHECK(write(pair[0], "mine", 4) == 4);
	child = fork();
	if (child == 0)
		_exit(write(pair[0], "other", 5) != 5);
	CHECK(waitpid(child, NULL, 0) == child);
	CHECK(write(pair[0], "mine", 4) == 4);
	CHECK(fd_recv_bytes(pair[1], room, sizeof(room), &sender, 0) == 4 && sender == getpid());
	CHECK(fd_recv_bytes(pair[1], room, sizeof(room), &sender, 0) == 5 && sender == child);
	CHECK(fd_recv_bytes(pair[1], room, sizeof(room), &sender, 0) == 4 && sender == getpid());
	close(pair[0]);
	close(pair[1]);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(fd_send(pair[0], "x", 1, pair, 2, 0) == 1);
	CHECK(fd_recv_bytes(pair[1], room, sizeof(room), NULL, 0) == -1 && errno == EPROTO);
	close(pair[0]);
	close(pair[1]);
}

TEST(kernel_files, "a kernel file is read as text, and a missing one is an error")
{
	char room[64];

	CHECK(fd_get(AT_FDCWD, "/proc/sys/kernel/ostype", room, sizeof(room)) == 6);
	CHECK_STR(room, "Linux\n");
	CHECK(fd_get(AT_FDCWD, "/proc/no-such-file", room, sizeof(room)) == -1);
	CHECK(errno == ENOENT);
	CHECK(fd_put(AT_FDCWD, "/proc/no-such-file", "1") == -1 && errno == ENOENT);
}
