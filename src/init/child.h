// A child from clone to execve: first the steps that every command needs, then those that this one
// asks for. It shares pid 1's memory, and records in it how far it came.
#pragma once

#include <limits.h>

#include "init/drop_privileges.h"
#include "init/exec_cgroup.h"
#include "init/user.h"
#include "protocol/talk.h"

#define CHILD_STACK 16384

struct child {
	const struct drop_privileges *setup;
	const struct exec_cgroup *exec_cgroup;
	int in, out, err; // the command's ends; in: -1, or the stdin to be used
	bool enlisted;	  // its parent had joined the cgroup and loaded the filter, so it has both
	uint32_t stdio_kind; // TALK_EXEC_PTY or TALK_EXEC_DIALOGUE: how they are set up; else 0
	const struct talk_exec *exec;
	const struct user *user;
	volatile int step; // enum talk_step: the step that failed
	volatile int errnum;
	char path[PATH_MAX + NAME_MAX + 2];
	char stack[CHILD_STACK] __attribute__((aligned(16)));
};

// Joins the exec cgroup and loads the filter; children of the caller inherit both. 0, or -errno and
// *step.
long child_enlist(const struct drop_privileges *setup, const struct exec_cgroup *exec_cgroup,
		  enum talk_step *step);
// Both return in the child only, if they failed or have more to do: 0, or the exit status. Neither
// touches errno.
int child_prepare(struct child *child);
int child_execute(struct child *child); // never 0

// The steps that a file worker takes too: the filter of commands; ids and groups of the user, from
// those of box root, and memory that nothing of the box can read. 0, or -errno.
long child_load_filter(const struct drop_privileges *setup);
long child_become(const struct user *user);

// The value of a variable of the command, or NULL.
const char *child_env(const struct talk_exec *exec, const char *name);
