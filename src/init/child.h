// The way of a child from its birth to execve: first what every command needs, then what this one
// asks for. It shares pid 1's memory, and tells in it how far it came.
#pragma once

#include <limits.h>

#include "init/drop_privileges.h"
#include "init/exec_cgroup.h"
#include "init/user.h"
#include "protocol/talk.h"

#define CHILD_STACK 16384

struct child {
	const struct drop_privileges *birth;
	const struct exec_cgroup *exec_cgroup;
	int in, out, err; // the command's ends; in: -1, or what stdin can become
	bool enlisted;	  // its parent was already, and so is it
	uint32_t seat;	  // TALK_EXEC_PTY or TALK_EXEC_DIALOGUE: they are to be taken so; else 0
	const struct talk_exec *exec;
	const struct user *user;
	volatile int step; // enum talk_step: where it failed
	volatile int errnum;
	char path[PATH_MAX + NAME_MAX + 2];
	char stack[CHILD_STACK] __attribute__((aligned(16)));
};

// What a child hands on to its own: the leaf, and the filter. 0, or -errno and *step.
long child_enlist(const struct drop_privileges *birth, const struct exec_cgroup *exec_cgroup,
		  enum talk_step *step);
// Both return in the child only, and only when they failed or have more to do: 0, or what to end
// with. Neither touches errno.
int child_prepare(struct child *child);
int child_execute(struct child *child); // never 0

// The value of a variable of the command, or NULL.
const char *child_env(const struct talk_exec *exec, const char *name);
