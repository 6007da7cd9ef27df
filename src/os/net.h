// The network of a box: its own loopback and nothing else.
#pragma once

// In the caller's network namespace: lo up, every port open to everybody, ping without a raw
// socket. `proc` is the host's /proc, which shows the caller's own namespace. 0, or -1 with errno;
// for the builder: no allocation.
int net_loopback(int proc);
