// Steering of every TCP connection in a network namespace, except to 127/8 and ::1, to a listener
// of that namespace. -1 with errno.
#pragma once

#include <stdint.h>

// By BPF_PROG_TYPE_SK_LOOKUP: no packet filter, no connection tracking. Steering lasts as long as
// the returned link, owned by the caller, and the listener. A second steering may be installed
// before the first is closed; the first listener, while open, gets the connections. EPERM, EINVAL
// or ENOSYS if this kernel refuses.
int steer_sk_lookup(int netns, int listener);

// By nftables' tproxy, where the kernel refuses the first, in the caller's network namespace.
// `port` is that of an IP_TRANSPARENT listener. Replaces the rules of an earlier call atomically.
// The rules last as long as the namespace; without a listener nothing is steered. 0 on success.
int steer_nft(uint16_t port);
