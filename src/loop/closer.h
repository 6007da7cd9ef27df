// Closes descriptors that a sandbox had: files, sockets, terminals. The last close() may take long:
// an unlinked file is freed extent by extent, and a socket waits for its peer as long as SO_LINGER
// says. So a thread closes them, never the loop.
#pragma once

#include "base/auto.h"
#include "loop/loop.h"

// Starts the thread. One per process; without it every close is immediate.
fallible closer_open(struct loop *loop);
void closer_close(void); // waits until everything is closed

// Gives *fd, if open, to the thread, and sets it to -1.
void closer_drop(int *fd);
void closer_drop_all(const int *fds, int count);
// A descriptor that is closed so at the end of its scope; take_fd() moves it.
#define auto_closer_fd on_exit_call(closer_drop) int
