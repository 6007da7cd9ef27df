// The bench's own client: one keep-alive connection, blocking, no libraries, so that what is
// measured is the server and the kernel.
#pragma once

#include <stddef.h>

struct net {
	int fd;
	int port;
	const char *key;
	size_t have; // bytes in `room` beyond the last reply
	char room[1 << 19];
};

void net_open(struct net *net, int port, const char *key);
void net_close(struct net *net);
void net_send(struct net *net, const char *method, const char *path, const char *body);
// Waits for the whole reply; returns its status and points *body (if given) at it, NUL-ended.
int net_recv(struct net *net, char **body);
// A reply in chunks, to its end, as it came; NUL-ended.
const char *net_chunked(struct net *net);
int net_ask(struct net *net, const char *method, const char *path, const char *body, char **out);
// Copies the string behind "key":" into out.
void net_text(const char *json, const char *key, char *out, size_t size);
