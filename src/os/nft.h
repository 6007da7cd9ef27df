// Steering by nftables' tproxy, where the kernel refuses os/sklookup. In the caller's network
// namespace; 0, or -1 with errno.
#pragma once

#include <stdint.h>

// Steers every TCP connection, except to 127/8 and ::1, to the IP_TRANSPARENT listener at `port` of
// this namespace. Replaces the rules of an earlier call atomically. The rules last as long as the
// namespace; without a listener nothing is steered.
int nft_steer(uint16_t port);
