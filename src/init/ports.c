// Ports of the box: the list of TCP listeners from /proc/net/tcp and tcp6, and connections to them
// on loopback, IPv4 first. Both are bounded: a connect that does not succeed in time fails.
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/handlers.h"
#include "init/reply.h"
#include "os/fd.h"

#define DIAL_MS 2000
#define LISTENS 0x0A // TCP_LISTEN
#define FILE_MAX (4u << 20)

// A connected socket, or -1. Loopback answers at once unless the listener's backlog is full.
static int init_ports_dial(const struct sockaddr *to, socklen_t len)
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
	fd_drop(&fd);
	return -1;
}

bool ports_dial(const struct fileop_request *ask, struct fileop_reply *reply)
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
	int fd = init_ports_dial((struct sockaddr *)&v4, sizeof(v4));
	int kept = errno;

	(void)reply;
	if (fd < 0)
		fd = init_ports_dial((struct sockaddr *)&v6, sizeof(v6));
	if (fd < 0) {
		errno = kept; // of IPv4: the box may have no IPv6
		return false;
	}
	reply_opened(fd);
	close(fd);
	return true;
}

bool ports_socket(const struct fileop_request *ask, struct fileop_reply *reply)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)ask;
	(void)reply;
	if (fd < 0)
		return false;
	reply_opened(fd);
	close(fd);
	return true;
}

static struct {
	uint8_t any[65536 / 8], local[65536 / 8];
} heard;

static bool is_loopback(struct str address)
{
	// As the kernel prints it: hexadecimal words in host byte order.
	char text[9];

	if (address.len == 32)
		return str_is(address, "00000000000000000000000001000000") ||
		       str_is(address, "00000000000000000000000000000001");
	snprintf(text, sizeof(text), "%08X", htonl(INADDR_LOOPBACK));
	return str_is(address, text);
}

static unsigned hex(struct str text)
{
	unsigned value = 0;

	for (size_t i = 0; i < text.len && i < 6; i++) {
		const char *digit = strchr("0123456789ABCDEF", text.at[i]);

		if (!digit || !*digit)
			return 0;
		value = value << 4 | (unsigned)(digit - "0123456789ABCDEF");
	}
	return value;
}

// "  0: 0100007F:1F90 00000000:0000 0A …"
static void init_ports_read_line(struct str line)
{
	struct str word, local = {0}, address;
	unsigned port;

	line = str_trim(line);
	if (!str_cut(&line, ' ', &word) || !str_cut(&line, ' ', &local) ||
	    !str_cut(&line, ' ', &word) || !str_cut(&line, ' ', &word) || hex(word) != LISTENS)
		return;
	str_cut(&local, ':', &address);
	port = hex(local);
	if (port == 0 || port > 65535)
		return;
	(is_loopback(address) ? heard.local : heard.any)[port / 8] |= (uint8_t)(1u << port % 8);
}

// Line by line; a line longer than the buffer is not the kernel's.
static void read_table(const char *path)
{
	static char room[65536];
	auto_fd_errno fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t kept = 0, total = 0;
	ssize_t n;

	while (fd >= 0 && total < FILE_MAX &&
	       (n = read(fd, room + kept, sizeof(room) - kept)) > 0) {
		struct str rest = {room, kept + (size_t)n};
		char *end;

		while ((end = memchr(rest.at, '\n', rest.len))) {
			size_t len = (size_t)(end - rest.at);

			init_ports_read_line((struct str){rest.at, len});
			rest = str_skip(rest, len + 1);
		}
		memmove(room, rest.at, rest.len);
		kept = rest.len < sizeof(room) ? rest.len : 0;
		total += (size_t)n;
	}
}

bool ports_list(const struct fileop_request *ask, struct fileop_reply *reply)
{
	struct reply_batch batch;

	(void)ask;
	memset(&heard, 0, sizeof(heard));
	read_table("/proc/self/net/tcp");
	read_table("/proc/self/net/tcp6");
	reply_begin(&batch, FILEOP_PORTS_ARE);
	for (unsigned i = 1; i < 65536; i++) {
		bool any = heard.any[i / 8] >> i % 8 & 1;

		if (!any && !(heard.local[i / 8] >> i % 8 & 1))
			continue;
		fileop_put_port(&batch.pack, &(struct fileop_port){(uint16_t)i, any});
		reply_item(&batch);
	}
	reply_flush(&batch);
	reply->count = batch.count;
	return true;
}
