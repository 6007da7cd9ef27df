// Steering by the kernel's own lookup of sockets (BPF_PROG_TYPE_SK_LOOKUP): no packet filter, no
// table of connections.
#pragma once

// In the network namespace `netns` every TCP connection but those to 127/8 and ::1 ends at
// `listener`, which is one of that namespace. It lasts as long as the link that is returned, the
// caller's, and as long as the listener is open: once that is closed nothing is steered any more.
// A second steering may be made before the first is closed; the first one's listener, while it is
// open, has the connections. -1 with errno: EPERM, EINVAL or ENOSYS when this kernel refuses.
int sklookup_steer(int netns, int listener);
