// The way out of a box that the warden holds.
#pragma once

#include "warden/box.h"

// Opens it, or opens it anew, in the network namespace `netns`. out_fds: listener and UDP socket,
// the caller's.
fallible box_network_open(struct warden *warden, struct warden_box *box, int netns,
			  int out_fds[ORDER_NET_FDS]);
// Closes what a berth has opened ahead in vain, and leaves nothing of it.
fallible box_network_undo(struct warden *warden, struct warden_box *box, int netns);
// What the note tells a network namespace by; 0: there is none.
uint64_t box_network_inode(int netns);
// ORDER_NETWORK. INVALID bad_socket: the socket that came with it is not one of this box.
fallible box_network_order(struct warden *warden, const struct order *order);
