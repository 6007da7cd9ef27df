// Watchdog for calls that a box can block. A pipe has a lock, and a process with an end of it can
// sleep while holding it (splice() to a socket that is not read): then every call on the pipe
// sleeps uninterruptibly, whatever its flags. O_NONBLOCK of a pty master is shared by all holders.
// So such calls are announced here, and a thread stops the box whose call does not return, which
// ends the wait. The thread dies with the daemon, whose exit a blocked call prevents: then the
// warden does the same.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "protocol/blocked_call.h"

enum stall_kind {
	STALL_LOCK, // only the lock can take long
	STALL_DISK, // the disk can too
};

// Called on the loop's thread while /proc can still be opened; stall_start() starts the watchdog.
// Without them, as in tests, nothing is watched. `page_fd`: the page of protocol/blocked_call.h,
// taken over; 0: none.
fallible stall_prepare(int page_fd);
fallible stall_start(void);
// The warden's socket, taken over; -1: none now.
void stall_link(int fd);

// Around the call, in any thread; may be nested. `at` is copied.
void stall_enter(const struct stall_at *at, enum stall_kind kind);
void stall_leave(void);

// Records a pipe of which only the daemon has this end (struct blocked_call_last). On the loop's
// thread. Returns the argument for stall_close(); 0: no place left.
int stall_open(const struct stall_at *at);
void stall_close(int *place); // sets it to 0
