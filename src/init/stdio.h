// Where a command sits when its stdin is not a pipe or nothing: at a terminal of the box's own, or
// in a dialogue with whoever asked for it.
#pragma once

#include <stdbool.h>

#include "protocol/talk.h"

struct stdio {
	int ours[3];   // as STARTED carries them; -1: none
	int theirs[3]; // what becomes of its fds 0, 1 and 2, or waits at TALK_DIALOGUE_FD and
		       // behind
};

// For an exec with TALK_EXEC_PTY or TALK_EXEC_DIALOGUE. On failure errno says why, and what was
// made by then is in *out.
bool stdio_make(const struct talk_exec *exec, uint32_t uid, struct stdio *out);
// The size that `exec` asks for, of a terminal that was made before anybody asked.
void stdio_size(int master, const struct talk_exec *exec);
// In the child, after setsid(): takes the seat and closes all other fds. 0, or -errno; the system
// calls are bare.
long stdio_take(uint32_t flags, int in, int out, int err);
