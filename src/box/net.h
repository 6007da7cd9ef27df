// The egress sockets of a box: two sockets in its network namespace that the warden made
// (protocol/order.h). They come with the box when its build order or struct box_return says `net`;
// the caller of box_net_take() owns them. The box itself neither reads nor accepts. Other
// namespaces cannot reach them, whichever process holds them.
#pragma once

#include "box/box.h"

struct box_net {
	int listener; // TCP, both families: getsockname() of an accepted socket is the destination
	int udp; // port 53 of every address, IPv4, with IP_PKTINFO: answer from the address asked
};

// True: both are the caller's. False: none, or taken before.
bool box_net_take(struct box *box, struct box_net *out);

// Attaches or detaches the network. On return the box is offline, or has new sockets to take; the
// old ones accept nothing more and are closed by their owner. Accepted connections live on. Called
// for a change of mode and, for every box with a network, when another warden has come (ask_links()
// differs), since redirection ended with the old one. NOT_OFFERED no_network: this host cannot;
// CONFLICT box_too_old: its pid 1 cannot. After any other failure it may be offline: retry. Waits.
fallible box_net_set(struct box *box, bool on, int64_t deadline);
