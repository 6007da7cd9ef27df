// The network of a box (docs/ISOLATION.md NET-2 to NET-4, NET-11), made from outside. The warden
// enters the box's network namespace, sets up addresses, routes and sockets, touches no process,
// and returns to its own.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

// How connections are steered to the listener.
enum netout_by { NETOUT_NONE, NETOUT_SK_LOOKUP, NETOUT_NFT };
const char *netout_word(enum netout_by by); // "none", "sk_lookup", "nft"

struct netout {
	enum netout_by by;
	int home; // the host's own network namespace
	dev_t dev;
	ino_t inode;
};

// Before the warden confines itself. Without a home there is no way out: NETOUT_NONE.
void netout_begin(struct netout *netout, enum netout_by by);
void netout_end(struct netout *netout);

// The network namespace of a socket, the caller's. INVALID bad_socket: it is none.
fallible netout_of(int sock, int *out_netns);
// Whether the user namespace that owns it is our own.
bool netout_is_ours(int netns);

struct netout_fds {
	int listener, udp; // for the daemon
	int link;	   // to be held: what steers ends with it. -1: it lasts without
};
// Opens the way, or opens it anew: whoever holds the link of before closes it then. The host's own
// namespace is never touched: INTERNAL. NOT_OFFERED no_network: this host cannot.
fallible netout_open(const struct netout *netout, int netns, struct netout_fds *out);
// As if it had not been opened, for a box that shall have none; its fds are closed by then.
fallible netout_undo(const struct netout *netout, int netns);
