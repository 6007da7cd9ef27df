// Starts one command: pipes, a child in its own cgroup, and the exact step that failed.
#pragma once

#include "init/child.h"

struct run {
	int pid;
	int out, err, in; // our ends; in is -1 unless it is asked for
};

#define RUN_NONE ((struct run){.out = -1, .err = -1, .in = -1})

// A requested command, and its user.
struct run_order {
	struct talk_exec exec;
	struct user user;
	char home[sizeof("HOME=") + USER_HOME_MAX];
	char name[sizeof("USER=") + USER_NAME_MAX];
};

// Finds the user of order->exec and, if asked for, adds HOME and USER. False: there is none.
// `exec.env` has two free entries at its end.
bool run_find_user(struct run_order *order);
// `exec.argv` has two free entries before it. On failure *step and errno say why, and only a child
// to reap is left.
bool run_start(const struct drop_privileges *setup, const struct exec_cgroup *exec_cgroup,
	       const struct run_order *order, struct run *out, enum talk_step *step);

// By the kernel's record of a child that is not reaped: it is dead; it has executed nothing since
// its fork. A child that is both has run no part of its command.
bool run_is_dead(int pid);
bool run_is_unexecuted(int pid, bool *out_stopped); // out_stopped may be NULL

// The command's ends are in `child`, ours in `out`. Of `exec` only the flags and the terminal size
// are used.
bool run_make_ends(const struct talk_exec *exec, uint32_t uid, struct run *out,
		   struct child *child);
void run_drop_ends(struct child *child);
// Sets the size that `exec` asks for, on a pty that was made ahead.
void run_set_size(int master, const struct talk_exec *exec);
void run_drop(struct run *run);
// A child inherits the oom_score_adj that pid 1 has at the clone.
void run_raise_oom(const struct drop_privileges *setup, bool up);
