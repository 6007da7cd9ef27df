// The network of a box: its own loopback and nothing else. Everything acts on the caller's network
// namespace, returns 0, or -1 with errno, and allocates nothing: for the builder, too.
#pragma once

#include <stdint.h>

// lo up, unprivileged ports from 0, ping sockets without CAP_NET_RAW, echo replies off. `proc` is
// the host's /proc, which shows the caller's namespace.
int net_loopback(int proc);

// Routes every address to the loopback (AnyIP), with 10.0.2.15 as source address. No packet leaves
// the namespace: a port without a listener is refused. Idempotent.
int net_anyip(void);
int net_anyip_end(void); // undoes that

// The two egress sockets, without steering: TCP of both families at a free port, and UDP 53 of
// every IPv4 address, which reports the destination address. `transparent`: for steering by nft.
// Nonblocking; owned by the caller.
int net_listen(int transparent, int *out_listener, int *out_udp);
uint16_t net_port(int sock); // its own, 0 with errno
