// The egress network of a box: listener, UDP socket and what steers connections to them.
#pragma once

#include "warden/box.h"

// Opens it in the network namespace `netns`, again if it was open. out_fds: listener and UDP
// socket, owned by the caller.
fallible box_network_open(struct warden *warden, struct warden_box *box, int netns,
			  int out_fds[ORDER_NET_FDS]);
// Removes the network that was opened ahead for a prebuilt box and is not wanted.
fallible box_network_undo(struct warden *warden, struct warden_box *box, int netns);
// The inode by which the state file names a network namespace; 0: there is none.
uint64_t box_network_inode(int netns);
// ORDER_NETWORK. INVALID bad_socket: the socket in the order is not of this box's network
// namespace.
fallible box_network_order(struct warden *warden, const struct order *order);
