#include "init/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/say.h"

#define DIAL_MS 2000
#define LISTENS 0x0A // TCP_LISTEN
#define FILE_MAX (4u << 20)

// A connected socket, or -1. Loopback answers at once unless the listener's queue is full.
static int dial(const struct sockaddr *to, socklen_t len)
{
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct pollfd ready = {.fd = fd, .events = POLLOUT};
	int failed = 0;

	if (fd < 0)
		return -1;
	if (connect(fd, to, len) == 0)
		return fd;
	if (errno == EINPROGRESS) {
		failed = ETIMEDOUT;
		if (poll(&ready, 1, DIAL_MS) > 0)
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &(socklen_t){sizeof(failed)});
		if (failed == 0)
			return fd;
		errno = failed;
	}
	failed = errno;
	close(fd);
	errno = failed;
	return -1;
}

bool ports_dial(const struct reach_ask *ask, struct reach_say *say)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)ask->number),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons((uint16_t)ask->number),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	struct reach_say opened = {.kind = REACH_OPENED};
	int fd = dial((struct sockaddr *)&v4, sizeof(v4));
	int kept = errno;

	(void)say;
	if (fd < 0)
		fd = dial((struct sockaddr *)&v6, sizeof(v6));
	if (fd < 0) {
		errno = kept; // of the first: the second may not even exist
		return false;
	}
	say_answer(&opened, fd);
	close(fd);
	return true;
}

static struct {
	uint8_t any[65536 / 8], local[65536 / 8];
} heard;

static bool is_loopback(const char *address)
{
	// As the kernel prints it: words of the machine's byte order, in hexadecimal.
	uint32_t v4 = htonl(INADDR_LOOPBACK);
	char text[9];

	if (strlen(address) == 32)
		return strncmp(address, "00000000000000000000000001000000", 32) == 0 ||
		       strncmp(address, "00000000000000000000000000000001", 32) == 0;
	snprintf(text, sizeof(text), "%08X", v4);
	return strcmp(address, text) == 0;
}

// "  0: 0100007F:1F90 00000000:0000 0A …"
static void read_line(const char *line)
{
	char address[33];
	unsigned port, state;

	if (sscanf(line, " %*d: %32[0-9A-Fa-f]:%x %*32[0-9A-Fa-f]:%*x %x", address, &port,
		   &state) != 3)
		return;
	if (state != LISTENS || port == 0 || port > 65535)
		return;
	(is_loopback(address) ? heard.local : heard.any)[port / 8] |= (uint8_t)(1u << port % 8);
}

static void read_table(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[512];
	size_t read = 0;

	while (file && read < FILE_MAX && fgets(line, sizeof(line), file)) {
		read += strlen(line);
		read_line(line);
	}
	if (file)
		fclose(file);
}

bool ports_list(const struct reach_ask *ask, struct reach_say *say)
{
	struct say_batch batch;

	(void)ask;
	memset(&heard, 0, sizeof(heard));
	read_table("/proc/self/net/tcp");
	read_table("/proc/self/net/tcp6");
	say_begin(&batch, REACH_PORTS_ARE);
	for (unsigned i = 1; i < 65536; i++) {
		bool any = heard.any[i / 8] >> i % 8 & 1;
		size_t before = batch.pack.len;

		if (!any && !(heard.local[i / 8] >> i % 8 & 1))
			continue;
		reach_put_port(&batch.pack, &(struct reach_port){(uint16_t)i, any});
		say_item(&batch, before);
	}
	say_flush(&batch);
	say->count = batch.count;
	return true;
}
