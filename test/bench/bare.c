#include "bench/bare.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/stat.h"

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

static int listen_somewhere(struct sockaddr_in *address)
{
	socklen_t len = sizeof(*address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*address = (struct sockaddr_in){.sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fd < 0 || bind(fd, (void *)address, len) || listen(fd, 1) ||
	    getsockname(fd, (void *)address, &len))
		err(1, "the barest server");
	return fd;
}

void bare_open(struct bare *bare)
{
	struct sockaddr_in address;
	int fd = listen_somewhere(&address), one = 1;

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

static char window[256 << 10];

static _Noreturn void send_bytes(int fd, size_t len)
{
	memset(window, 'b', sizeof(window));
	for (size_t sent = 0; sent < len;) {
		ssize_t n = write(fd, window, sizeof(window));

		if (n <= 0)
			_exit(1);
		sent += (size_t)n;
	}
	_exit(0);
}

static _Noreturn void take_bytes(int fd, size_t len)
{
	while (len > 0) {
		ssize_t n = read(fd, window, sizeof(window));

		if (n <= 0)
			_exit(1);
		len -= (size_t)n;
	}
	_exit(0);
}

// The other side, in a process of its own.
static int begin(void (*other)(int fd, size_t len), size_t len, pid_t *out_pid)
{
	struct sockaddr_in address;
	int listener = listen_somewhere(&address), fd;

	*out_pid = fork();
	if (*out_pid < 0)
		err(1, "fork");
	if (*out_pid == 0) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (void *)&address, sizeof(address)))
			_exit(1);
		other(fd, len);
	}
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	return fd;
}

static double end(pid_t pid, size_t len, double start)
{
	double took = now_ms() - start;
	int status = 0;

	waitpid(pid, &status, 0);
	if (status)
		errx(1, "the other side of a bare transfer failed");
	return (double)len / took / 1e6;
}

void bare_disk(const char *dir)
{
	struct btrfs_ioctl_quota_ctl_args simple = {.cmd = 4}; // its name is younger than Debian 12
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, BTRFS_IOC_QUOTA_CTL, &simple))
		warn("simple quotas on %s", dir);
	close(fd);
}

double bare_upload(const char *path, size_t len)
{
	pid_t pid;
	int fd = begin(send_bytes, len, &pid), through[2];
	double start = now_ms();
	int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (file < 0 || pipe2(through, O_CLOEXEC) || fcntl(through[1], F_SETPIPE_SZ, 1 << 20) < 0)
		err(1, "%s", path);
	for (size_t got = 0; got < len;) {
		ssize_t n = splice(fd, NULL, through[1], NULL, 1 << 20, SPLICE_F_MOVE);

		if (n <= 0)
			err(1, "splice");
		for (got += (size_t)n; n > 0;) {
			ssize_t put = splice(through[0], NULL, file, NULL, (size_t)n,
					     SPLICE_F_MOVE);

			if (put <= 0)
				err(1, "%s", path);
			n -= put;
		}
	}
	close(through[0]);
	close(through[1]);
	close(file);
	close(fd);
	return end(pid, len, start);
}

double bare_download(const char *path, size_t len)
{
	pid_t pid;
	int fd = begin(take_bytes, len, &pid);
	double start = now_ms();
	int file = open(path, O_RDONLY | O_CLOEXEC);

	for (off_t at = 0; (size_t)at < len;)
		if (file < 0 || sendfile(fd, file, &at, 1 << 20) <= 0)
			err(1, "%s", path);
	close(file);
	close(fd);
	return end(pid, len, start);
}
