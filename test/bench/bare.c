#include "bench/bare.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static size_t read_all(int fd, char *room, size_t size)
{
	size_t have = 0;
	ssize_t n;

	while (have < size && (n = read(fd, room + have, size - have)) > 0)
		have += (size_t)n;
	close(fd);
	return have;
}

static int run(char *out, size_t size, size_t *len)
{
	char *const argv[] = {(char *)"/bin/true", NULL};
	posix_spawn_file_actions_t actions;
	int pipes[2][2], status = 0;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	for (int i = 0; i < 2; i++) {
		if (pipe2(pipes[i], O_CLOEXEC))
			err(1, "pipe");
		posix_spawn_file_actions_adddup2(&actions, pipes[i][1], i + 1);
	}
	errno = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
	if (errno)
		err(1, "spawn");
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[0][1]);
	close(pipes[1][1]);
	*len = read_all(pipes[0][0], out, size);
	*len += read_all(pipes[1][0], out + *len, size - *len);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

// One request, with its body; false: the client has gone.
static int take_request(int fd, char *room, size_t size)
{
	size_t have = 0, want = 0;

	while (!want || have < want) {
		ssize_t n = read(fd, room + have, size - 1 - have);
		char *end, *length;

		if (n <= 0)
			return 0;
		have += (size_t)n;
		room[have] = 0;
		end = strstr(room, "\r\n\r\n");
		length = end ? strcasestr(room, "\r\nContent-Length:") : NULL;
		if (end)
			want = (size_t)(end + 4 - room) +
			       (length ? strtoul(length + 17, NULL, 10) : 0);
	}
	return 1;
}

static void serve(int fd)
{
	char room[16384], out[4096], reply[8192], body[4200];
	size_t len;

	while (take_request(fd, room, sizeof(room))) {
		int code = run(out, sizeof(out), &len);
		int n = snprintf(body, sizeof(body), "{\"exitCode\":%d,\"stdout\":\"%.*s\"}", code,
				 (int)len, out);

		n = snprintf(reply, sizeof(reply),
			     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
			     "Content-Length: %d\r\n\r\n%s",
			     n, body);
		if (write(fd, reply, (size_t)n) != n)
			return;
	}
}

void bare_open(struct bare *bare)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || bind(fd, (void *)&address, len) || listen(fd, 1) ||
	    getsockname(fd, (void *)&address, &len))
		err(1, "the barest server");
	bare->port = ntohs(address.sin_port);
	bare->pid = fork();
	if (bare->pid < 0)
		err(1, "fork");
	if (bare->pid == 0) {
		int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		serve(client);
		_exit(0);
	}
	close(fd);
}

void bare_close(struct bare *bare)
{
	kill(bare->pid, SIGKILL);
	waitpid(bare->pid, NULL, 0);
}
