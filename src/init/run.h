// Starting one command: pipes, a child in its own cgroup, and the exact step that failed.
#pragma once

#include "init/birth.h"
#include "init/leaf.h"
#include "init/user.h"
#include "model/talk.h"

struct run {
	int pid;
	int out, err, in; // our ends; in is -1 unless TALK_EXEC_STDIN
};

// `exec->argv` has two free places before it and `exec->env` two behind its end. On failure *step
// and errno say why, and nothing is left behind but a child to reap.
bool run_start(const struct birth *birth, const struct leaf *leaf, struct talk_exec *exec,
	       struct run *out, enum talk_step *step);
