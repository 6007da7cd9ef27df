// Calls that a sandbox can hold up. A pipe has a lock, and the kernel lets whoever has an end of it
// sleep while holding that (splice() to a socket that nobody reads): then every call on the pipe
// waits, uninterruptible, whatever flags it was made with. A terminal's O_NONBLOCK is everybody's
// who has the master. So such calls are announced here, and one thread does nothing but look after
// them: where one does not come back the sandbox is ended, and with it the wait. That thread ends
// with the daemon, which a call that is held up keeps from dying: then the warden does the same.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "protocol/blocked_call.h"

enum stall_kind {
	STALL_LOCK, // nothing but the lock can take long
	STALL_DISK, // the disk can, too
};

// On the loop's thread, while /proc can still be opened; then the thread. Without them, as in
// tests, nobody looks. `holds`: the page of protocol/blocked_call.h, taken over; 0: there is none.
fallible stall_prepare(int holds);
fallible stall_start(void);
// The warden's socket, which is taken over; -1: there is none now.
void stall_link(int fd);

// Before and after the call, in any thread; they may be nested. `at` is copied.
void stall_enter(const struct stall_at *at, enum stall_kind kind);
void stall_leave(void);

// A pipe of which nobody else has the daemon's end (struct blocked_call_last). On the loop's
// thread. Returns what stall_close() is to be given; 0: there is no place left.
int stall_open(const struct stall_at *at);
void stall_close(int *place); // and forgets it
