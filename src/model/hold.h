// Calls of the daemon that a sandbox can hold up (box/brink.h): which thread is at one, whose it
// is, and from when on it takes too long. A page that the daemon writes and the warden can read.
// While the daemon lives it looks after itself; a thread that does not come back from such a call
// also keeps it from dying, and then the warden has to know whom to end for that (warden/held).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define HOLDS 72	// the loop's, and as many as there may be workers
#define HOLDS_LAST 1024 // sandboxes

struct brink_at {
	char box[ID_BOX_LEN + 1];
	bool ephemeral; // it has no files to keep
};

struct hold {
	_Atomic int32_t thread; // 0: it is at no such call
	int64_t late_us;	// clock_us()
	struct brink_at at;
};

// How many pipes of a sandbox there are whose end nobody but the daemon has: who closes one last
// takes the lock, and a daemon that dies closes them all.
struct hold_last {
	_Atomic int32_t count; // 0: the place is free
	struct brink_at at;
};

struct holds {
	struct hold calls[HOLDS];
	struct hold_last last[HOLDS_LAST];
};

// What the supervisor says with SIGUSR1: where the daemon that cannot die hangs.
enum hold_where { HOLD_IN_CALL = 1, HOLD_IN_CLOSE };
