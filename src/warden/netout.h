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

// Call before the warden confines itself. NETOUT_NONE if the host's namespace cannot be opened.
void netout_begin(struct netout *netout, enum netout_by by);
void netout_end(struct netout *netout);

// The network namespace of a socket, owned by the caller. INVALID bad_socket: not a socket.
fallible netout_of(int sock, int *out_netns);
// Whether our own user namespace owns it.
bool netout_is_ours(int netns);

struct netout_fds {
	int listener, udp; // for the daemon
	int link;	   // keep open: steering ends with it. -1: steering lasts without
};
// Opens the network, again if it was open: then close the previous link. Never touches the host's
// own namespace: INTERNAL. NOT_OFFERED no_network: this host cannot.
fallible netout_open(const struct netout *netout, int netns, struct netout_fds *out);
// Reverts netout_open(), for a box that shall have no network. Its fds are closed by then.
fallible netout_undo(const struct netout *netout, int netns);
