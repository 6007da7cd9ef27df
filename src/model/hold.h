// Calls of the daemon that a sandbox can hold up (box/brink.h): which thread is at one, whose it
// is, and from when on it takes too long. A page that the daemon writes and the warden can read.
// While the daemon lives it looks after itself; a thread that does not come back from such a call
// also keeps it from dying, and then the warden has to know whom to end for that (warden/held).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define HOLDS 72 // the loop's, and as many as there may be workers

struct brink_at {
	char box[ID_BOX_LEN + 1];
	bool ephemeral; // it has no files to keep
};

struct hold {
	_Atomic int32_t thread; // 0: it is at no such call
	int64_t late_us;	// clock_us()
	struct brink_at at;
};

struct holds {
	struct hold calls[HOLDS];
	struct hold last[HOLDS]; // pipes that nobody but the daemon will close: thread is 1
};
