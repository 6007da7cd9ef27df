// The way out of a box that the warden holds.
#pragma once

#include "warden/cell.h"

// Opens it, or opens it anew, in the network namespace `netns`. out_fds: listener and UDP socket,
// the caller's.
fallible netcell_open(struct warden *warden, struct cell *cell, int netns,
		      int out_fds[ORDER_NET_FDS]);
// Closes what a berth has opened ahead in vain, and leaves nothing of it.
fallible netcell_undo(struct warden *warden, struct cell *cell, int netns);
// What the note tells a network namespace by; 0: there is none.
uint64_t netcell_inode(int netns);
// ORDER_NETWORK. INVALID bad_socket: the socket that came with it is not one of this box.
fallible netcell_order(struct warden *warden, const struct order *order);
