// The egress network of a box (docs/ISOLATION.md NET-2 to NET-4, NET-11): listener, UDP socket and
// what steers connections to them. It is made from outside: the warden enters the box's network
// namespace, sets up addresses, routes and sockets, touches no process, and returns to its own.
#pragma once

#include "warden/box.h"

const char *box_network_word(enum box_network_by by); // "none", "sk_lookup", "nft"
// Call before the warden confines itself. NETWORK_BY_NONE if the host's namespace cannot be opened.
void box_network_begin(struct box_network *network, enum box_network_by by);

// Opens it in the network namespace `netns`, again if it was open. out_fds: listener and UDP
// socket, owned by the caller. Never touches the host's own namespace: INTERNAL. NOT_OFFERED
// no_network: this host cannot.
fallible box_network_open(struct warden *warden, struct warden_box *box, int netns,
			  int out_fds[ORDER_NET_FDS]);
// Removes the network that was opened ahead for a prebuilt box and is not wanted.
fallible box_network_undo(struct warden *warden, struct warden_box *box, int netns);
// The inode by which the state file names a network namespace; 0: there is none.
uint64_t box_network_inode(int netns);
// ORDER_NETWORK. INVALID bad_socket: the socket in the order is not of this box's network
// namespace.
fallible box_network_order(struct warden *warden, const struct order *order);
