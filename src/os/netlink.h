// Netlink messages to the kernel's network configuration: a batch is built, sent at once, and every
// message of it is answered. No allocation, errors as errno: for the builder, too.
#pragma once

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NETLINK_ROOM 2048

struct netlink {
	_Alignas(NLMSG_ALIGNTO) char bytes[NETLINK_ROOM];
	size_t len;
	size_t head;   // start of the last message
	uint32_t last; // its number, from 1 on
	bool failed;   // it did not fit: a bug
};

// Begins a new message with `body`.
void netlink_begin(struct netlink *batch, uint16_t type, uint16_t flags, const void *body,
		   size_t len);
// An attribute of the last message.
void netlink_put(struct netlink *batch, uint16_t type, const void *value, size_t len);
void netlink_put_text(struct netlink *batch, uint16_t type, const char *text); // with its NUL
void netlink_put_be32(struct netlink *batch, uint16_t type, uint32_t value);   // in network order
// Attributes between these two are nested in one of that type.
size_t netlink_open(struct netlink *batch, uint16_t type);
void netlink_close(struct netlink *batch, size_t nest);

// Sends the batch to `family` (NETLINK_ROUTE, ...) of the caller's network namespace and reads the
// answers: 0, or -1 with the errno of the first message that failed, except `borne` (0: none). At
// least one of them must ask for an answer (NLM_F_ACK); the others answer only on failure.
int netlink_run(int family, const struct netlink *batch, int borne);
