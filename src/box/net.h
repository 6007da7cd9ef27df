// The way out of a box: two sockets in its network namespace that the warden made, see
// protocol/order.h. They come with the box when its build order or struct box_return says `net`,
// and are whoever's who takes them: the box itself neither reads nor accepts. Nobody can listen
// there from outside: the sockets are of the box's namespace, whichever process holds them.
#pragma once

#include "box/box.h"

struct box_net {
	int listener; // TCP, both families: getsockname() of what it accepts is where the box meant
	int udp; // port 53 of every address, IPv4, with IP_PKTINFO: answer from the address asked
};

// True: the two are the caller's. False: there are none, or they were taken before.
bool box_net_take(struct box *box, struct box_net *out);

// The port of the listener within the box, whoever holds it: not one that the box opened. 0: none.
uint16_t box_net_port(const struct box *box);

// Opens the way, or closes it. When it returns the box is offline, or has new sockets to be taken;
// those of before accept nothing more and are to be closed by whoever took them. What was accepted
// lives on. For a change of mode, and for every box with a network when another warden has come
// (ask_links() differs): the steering ended with the one before. NOT_OFFERED no_network: this host
// cannot; CONFLICT box_too_old: its pid 1 cannot. After any other failure it may be offline, and
// this may be tried again. Waits.
fallible box_net_set(struct box *box, bool on, int64_t deadline);
