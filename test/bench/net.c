#include "bench/net.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

void net_open(struct net *net, int port, const char *key)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	net->port = port;
	net->key = key;
	net->have = 0;
	net->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (net->fd < 0 || connect(net->fd, (struct sockaddr *)&to, sizeof(to)))
		err(1, "connect to 127.0.0.1:%d", port);
	setsockopt(net->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

void net_close(struct net *net)
{
	close(net->fd);
}

void net_send(struct net *net, const char *method, const char *path, const char *body)
{
	char head[4096];
	int len = snprintf(head, sizeof(head),
			   "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
			   "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
			   method, path, net->port, net->key, body ? strlen(body) : 0,
			   body ? body : "");

	if (send(net->fd, head, (size_t)len, MSG_NOSIGNAL) != len)
		err(1, "send %s %s", method, path);
}

int net_recv(struct net *net, char **body)
{
	size_t len = 0;

	for (;;) {
		char *end = memmem(net->room, len, "\r\n\r\n", 4);

		if (end) {
			const char *cl = strcasestr(net->room, "\r\ncontent-length:");
			size_t head = (size_t)(end - net->room) + 4;
			size_t want = cl && cl < end ? strtoul(cl + 17, NULL, 10) : 0;

			if (len >= head + want) {
				net->room[head + want] = 0;
				if (body)
					*body = net->room + head;
				return (int)strtol(net->room + 9, NULL, 10);
			}
		}
		ssize_t got = recv(net->fd, net->room + len, sizeof(net->room) - 1 - len, 0);

		if (got <= 0)
			err(1, "the server hung up");
		len += (size_t)got;
		net->room[len] = 0;
	}
}

const char *net_chunked(struct net *net)
{
	size_t len = 0;

	while (len < 7 || memcmp(net->room + len - 7, "\r\n0\r\n\r\n", 7) != 0) {
		ssize_t got = recv(net->fd, net->room + len, sizeof(net->room) - 1 - len, 0);

		if (got <= 0)
			errx(1, "the server hung up");
		len += (size_t)got;
		net->room[len] = 0;
	}
	return net->room;
}

int net_ask(struct net *net, const char *method, const char *path, const char *body, char **out)
{
	net_send(net, method, path, body);
	return net_recv(net, out);
}

void net_text(const char *json, const char *key, char *out, size_t size)
{
	char mark[64];
	const char *at;

	snprintf(mark, sizeof(mark), "\"%s\":\"", key);
	at = strstr(json, mark);
	if (!at)
		errx(1, "no %s in %s", key, json);
	at += strlen(mark);
	snprintf(out, size, "%.*s", (int)strcspn(at, "\""), at);
}
