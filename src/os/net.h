// The network of a box: its own loopback and nothing else. All of it is about the caller's own
// network namespace, answers 0, or -1 with errno, and allocates nothing: for the builder, too.
#pragma once

#include <stdint.h>

// lo up, every port open to everybody, ping without a raw socket, which nobody answers. `proc` is
// the host's /proc, which shows the caller's own namespace.
int net_loopback(int proc);

// Every address of the world is on the loopback (AnyIP), and what the box sends comes from
// 10.0.2.15. There is no way out by this: what nobody here listens at is refused. Done already is
// well.
int net_anyip(void);
int net_anyip_end(void); // undoes that

// The two sockets of a way out, with nothing that steers to them: TCP of both families at a free
// port, and UDP 53 of every IPv4 address, which tells what address was asked. `transparent`: the
// listener takes what is steered to it by nft. Nonblocking; the caller's.
int net_listen(int transparent, int *out_listener, int *out_udp);
uint16_t net_port(int sock); // its own, 0 with errno
