// System calls of the daemon that a sandbox can block (box/stall.h): the thread, the sandbox, and
// when the call is overdue. The daemon writes this page and the warden can read it. A living daemon
// handles blocked calls itself. A blocked thread also keeps a killed daemon from exiting; the
// warden then has to know which sandbox to end (warden/blocked).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define HOLDS 72		// the loop's, and one for each worker thread
#define BLOCKED_CALLS_LAST 1024 // sandboxes

struct stall_at {
	char box[ID_BOX_LEN + 1];
	bool ephemeral; // it has no files to keep
};

struct blocked_call {
	_Atomic int32_t thread; // 0: in no such call
	int64_t late_us;	// clock_us()
	struct stall_at at;
};

// How many pipes of a sandbox have an end that only the daemon has: the last close takes the pipe's
// lock, and a daemon that exits closes them all.
struct blocked_call_last {
	_Atomic int32_t count; // 0: the entry is free
	struct stall_at at;
};

struct blocked_calls {
	struct blocked_call calls[HOLDS];
	struct blocked_call_last last[BLOCKED_CALLS_LAST];
};

// The value of SIGUSR1 from the supervisor: where the daemon that cannot exit hangs.
enum blocked_call_where { BLOCKED_CALL_IN_CALL = 1, BLOCKED_CALL_IN_CLOSE };
