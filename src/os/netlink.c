// Batches of netlink messages. The kernel processes them within send() and has answered when that
// returns, so nothing here waits. Only messages of the kernel (sender 0) are read.
//
// syscalls: socket sendto recvfrom close
#include "os/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Room for `len` more bytes, zeroed and padded; NULL: full.
static char *netlink_extend(struct netlink *batch, size_t len)
{
	size_t whole = NLMSG_ALIGN(len);
	char *at = batch->bytes + batch->len;

	if (batch->failed || whole > sizeof(batch->bytes) - batch->len) {
		batch->failed = true;
		return NULL;
	}
	memset(at, 0, whole);
	batch->len += whole;
	return at;
}

static struct nlmsghdr *head_of(struct netlink *batch)
{
	return (struct nlmsghdr *)(batch->bytes + batch->head);
}

// Updates the length in the message header.
static void settle(struct netlink *batch)
{
	if (!batch->failed)
		head_of(batch)->nlmsg_len = (uint32_t)(batch->len - batch->head);
}

void netlink_begin(struct netlink *batch, uint16_t type, uint16_t flags, const void *body,
		   size_t len)
{
	size_t head = batch->len;
	char *at = netlink_extend(batch, NLMSG_HDRLEN + len);

	if (!at)
		return;
	batch->head = head;
	*head_of(batch) = (struct nlmsghdr){
		.nlmsg_type = type,
		.nlmsg_flags = flags | NLM_F_REQUEST,
		.nlmsg_seq = ++batch->last,
	};
	memcpy(at + NLMSG_HDRLEN, body, len);
	settle(batch);
}

void netlink_put(struct netlink *batch, uint16_t type, const void *value, size_t len)
{
	struct rtattr attr = {.rta_type = type, .rta_len = (uint16_t)RTA_LENGTH(len)};
	char *at = netlink_extend(batch, attr.rta_len);

	if (!at)
		return;
	memcpy(at, &attr, sizeof(attr));
	memcpy(at + RTA_LENGTH(0), value, len);
	settle(batch);
}

void netlink_put_text(struct netlink *batch, uint16_t type, const char *text)
{
	netlink_put(batch, type, text, strlen(text) + 1);
}

void netlink_put_be32(struct netlink *batch, uint16_t type, uint32_t value)
{
	uint32_t swapped = htonl(value);

	netlink_put(batch, type, &swapped, sizeof(swapped));
}

size_t netlink_open(struct netlink *batch, uint16_t type)
{
	size_t nest = batch->len;

	netlink_put(batch, type | NLA_F_NESTED, "", 0);
	return nest;
}

void netlink_close(struct netlink *batch, size_t nest)
{
	struct rtattr attr;

	if (batch->failed)
		return;
	memcpy(&attr, batch->bytes + nest, sizeof(attr));
	attr.rta_len = (uint16_t)(batch->len - nest);
	memcpy(batch->bytes + nest, &attr, sizeof(attr));
}

// Reads one datagram of answers; each is the errno of one message, 0 for success. -1: no more.
static int netlink_receive(int sock, int borne, int *first, int *count)
{
	_Alignas(NLMSG_ALIGNTO) char room[3072];
	struct sockaddr_nl from = {0};
	socklen_t size = sizeof(from);
	ssize_t len = recvfrom(sock, room, sizeof(room), MSG_DONTWAIT, (struct sockaddr *)&from,
			       &size);
	const struct nlmsghdr *head = (const struct nlmsghdr *)room;

	if (len < 0)
		return -1;
	for (size_t left = (size_t)len; !from.nl_pid && NLMSG_OK(head, left);
	     head = NLMSG_NEXT(head, left)) {
		const struct nlmsgerr *word = NLMSG_DATA(head);

		if (head->nlmsg_type != NLMSG_ERROR ||
		    head->nlmsg_len < NLMSG_LENGTH(sizeof(*word)))
			continue;
		if (word->error && word->error != -borne && !*first)
			*first = -word->error;
		++*count;
	}
	return 0;
}

int netlink_run(int family, const struct netlink *batch, int borne)
{
	static const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	int sock, count = 0, failure = 0;

	if (batch->failed) {
		errno = EMSGSIZE;
		return -1;
	}
	sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);
	if (sock < 0)
		return -1;
	if (sendto(sock, batch->bytes, batch->len, 0, (const struct sockaddr *)&kernel,
		   sizeof(kernel)) != (ssize_t)batch->len)
		failure = errno;
	while (!failure && netlink_receive(sock, borne, &failure, &count) == 0)
		;
	close(sock);
	if (!failure && count == 0)
		failure = EIO;
	errno = failure;
	return failure ? -1 : 0;
}
