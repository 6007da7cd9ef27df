// Stdio other than pipes: a pty of the box, or a dialogue, a socket to the client of the command.
#pragma once

#include <stdbool.h>

#include "protocol/talk.h"

struct stdio {
	int ours[3];   // as STARTED carries them; -1: none
	int theirs[3]; // its fds 0, 1 and 2, or those from TALK_DIALOGUE_FD on
};

// For an exec with TALK_EXEC_PTY or TALK_EXEC_DIALOGUE. On failure errno says why, and fds made by
// then are in *out.
bool stdio_make(const struct talk_exec *exec, uint32_t uid, struct stdio *out);
// Sets the size that `exec` asks for, on a pty that was made ahead.
void stdio_size(int master, const struct talk_exec *exec);
// In the child, after setsid(): sets up its stdio and closes all other fds. 0, or -errno; system
// calls are raw.
long stdio_take(uint32_t flags, int in, int out, int err);
