// Steering by BPF_PROG_TYPE_SK_LOOKUP: no packet filter, no connection tracking.
#pragma once

// Steers every TCP connection in the network namespace `netns`, except to 127/8 and ::1, to
// `listener`, a socket of that namespace. It lasts as long as the returned link, owned by the
// caller, and the listener. A second steering may be installed before the first is closed; the
// first listener, while open, gets the connections. -1 with errno: EPERM, EINVAL or ENOSYS if this
// kernel refuses.
int sklookup_steer(int netns, int listener);
