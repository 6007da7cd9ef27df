// Steering by a packet filter (nftables' tproxy), where the kernel refuses the better way of
// os/sklookup. In the caller's network namespace; 0, or -1 with errno.
#pragma once

#include <stdint.h>

// Every TCP connection but those to 127/8 and ::1 ends at whoever listens at `port` of this
// namespace with IP_TRANSPARENT. Replaces, in one step, what an earlier call has made. It lasts as
// long as the namespace, but when nobody listens there nothing is steered.
int nft_steer(uint16_t port);
