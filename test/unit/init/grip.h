// A file worker at the other end of a socket pair, with a directory of its own to work in.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/file_worker.h"
#include "os/fd.h"
#include "protocol/fileop.h"
#include "tap.h"

struct grip {
	int sock, pid;
	char dir[64];
};

static struct grip grip;
static char grip_words[FILEOP_SIZE_MAX];
static struct fileop_reply grip_send;
static int grip_fd = -1;

__attribute__((unused)) static void grip_hold(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		perror("socketpair");
	grip.pid = fork();
	if (grip.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pair[1], 3); // and nothing else, as a real one
		syscall(SYS_close_range, 4, ~0u, 0);
		file_worker_serve(3);
		_exit(0);
	}
	close(pair[1]);
	grip.sock = pair[0];
}

// True: it ended by itself, soon.
__attribute__((unused)) static bool grip_let_go(void)
{
	int status = -1;

	close(grip.sock);
	for (int i = 0; i < 500; i++) {
		if (waitpid(grip.pid, &status, WNOHANG) == grip.pid)
			return status == 0;
		usleep(2000);
	}
	kill(grip.pid, SIGKILL);
	waitpid(grip.pid, NULL, 0);
	return false;
}

__attribute__((unused)) static void grip_open(void)
{
	snprintf(grip.dir, sizeof(grip.dir), "/tmp/cove-grip-%d", getpid());
	mkdir(grip.dir, 0755);
	signal(SIGPIPE, SIG_IGN);
	grip_hold();
}

static struct fileop_request grip_ask(enum fileop_verb verb, const char *path)
{
	return (struct fileop_request){
		.verb = verb,
		.mode = FILEOP_KEEP_MODE,
		.base = str_of(grip.dir),
		.path = str_of(path),
		.other = STR(""),
		.text = STR(""),
		.bytes = STR(""),
	};
}

static bool grip_put(const struct fileop_request *ask)
{
	static char room[FILEOP_SIZE_MAX];
	size_t len = fileop_encode_request(ask, room, sizeof(room));

	return len > 0 && fd_send(grip.sock, room, len, NULL, 0, 0) == (ssize_t)len;
}

// The next answer, in grip_send and grip_fd. False: none came, or it is malformed.
static bool grip_get(void)
{
	int count = 1;
	ssize_t n;

	if (grip_fd >= 0)
		close(grip_fd);
	grip_fd = -1;
	n = fd_recv(grip.sock, grip_words, sizeof(grip_words), &grip_fd, &count, 0);
	if (n <= 0 || !fileop_decode_reply(grip_words, (size_t)n, &grip_send))
		return false;
	return count == fileop_fds(&grip_send);
}

// One request, one answer: 0, or the errno it failed with, or -1 for a failure of another kind.
static int grip_do(const struct fileop_request *ask)
{
	if (!grip_put(ask) || !grip_get())
		return -2;
	if (grip_send.kind != FILEOP_FAILED)
		return 0;
	return grip_send.why == FILEOP_ERRNO ? grip_send.errnum : -1;
}

__attribute__((unused)) static int grip_on(enum fileop_verb verb, const char *path, uint32_t flags)
{
	struct fileop_request ask = grip_ask(verb, path);

	ask.flags = flags;
	return grip_do(&ask);
}

__attribute__((unused)) static int grip_write(const char *path, uint32_t flags, const char *text)
{
	struct fileop_request ask = grip_ask(FILEOP_WRITE, path);

	ask.flags = flags;
	ask.bytes = str_of(text);
	return grip_do(&ask);
}

__attribute__((unused)) static bool grip_reads(const char *path, const char *text)
{
	return grip_on(FILEOP_READ, path, 0) == 0 && grip_send.kind == FILEOP_BYTES &&
	       str_is(grip_send.rest, text);
}

// In the directory, by the shell.
__attribute__((unused)) static bool grip_sh(const char *script)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (chdir(grip.dir) == 0)
			execl("/bin/sh", "sh", "-c", script, NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

__attribute__((unused)) static void grip_close(void)
{
	grip_sh("chmod -R u+rwx . ; rm -rf \"$PWD\"");
}
