// Calls of the daemon that a sandbox can hold up (box/stall.h): which thread is at one, whose it
// is, and from when on it takes too long. A page that the daemon writes and the warden can read.
// While the daemon lives it looks after itself; a thread that does not come back from such a call
// also keeps it from dying, and then the warden has to know whom to end for that (warden/blocked).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define HOLDS 72		// the loop's, and as many as there may be workers
#define BLOCKED_CALLS_LAST 1024 // sandboxes

struct stall_at {
	char box[ID_BOX_LEN + 1];
	bool ephemeral; // it has no files to keep
};

struct blocked_call {
	_Atomic int32_t thread; // 0: it is at no such call
	int64_t late_us;	// clock_us()
	struct stall_at at;
};

// How many pipes of a sandbox there are whose end nobody but the daemon has: who closes one last
// takes the lock, and a daemon that dies closes them all.
struct blocked_call_last {
	_Atomic int32_t count; // 0: the place is free
	struct stall_at at;
};

struct blocked_calls {
	struct blocked_call calls[HOLDS];
	struct blocked_call_last last[BLOCKED_CALLS_LAST];
};

// What the supervisor says with SIGUSR1: where the daemon that cannot die hangs.
enum blocked_call_where { BLOCKED_CALL_IN_CALL = 1, BLOCKED_CALL_IN_CLOSE };
