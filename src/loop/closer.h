// Descriptors that a sandbox had in its hands: files, sockets, terminals. close() of the last one
// may take long: a file without a name is freed, extent by extent, and a socket waits for its peer
// as long as SO_LINGER says. So a thread closes them, never the loop.
#pragma once

#include "base/auto.h"
#include "loop/loop.h"

// Starts the thread. One a process; without it everything is closed at once.
fallible closer_open(struct loop *loop);
void closer_close(void); // when all that was given to it is closed

// Gives *fd, if there is one, to the thread, and forgets it.
void closer_drop(int *fd);
void closer_drop_all(const int *fds, int count);
// A descriptor that is closed so when its scope ends; take_fd() moves it on.
#define auto_closer_fd on_exit_call(closer_drop) int
