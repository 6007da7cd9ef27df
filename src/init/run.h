// Starting one command: pipes, a child in its own cgroup, and the exact step that failed.
#pragma once

#include "init/child.h"

struct run {
	int pid;
	int out, err, in; // our ends; in is -1 unless it is asked for
};

#define RUN_NONE ((struct run){.out = -1, .err = -1, .in = -1})

// A command that is asked for, and who it runs as.
struct run_order {
	struct talk_exec exec;
	struct user user;
	char home[sizeof("HOME=") + USER_HOME_MAX];
	char name[sizeof("USER=") + USER_NAME_MAX];
};

// Finds the user of order->exec and, when asked for, adds HOME and USER. False: there is none.
// `exec.env` has two free places behind its end.
bool run_find_user(struct run_order *order);
// `exec.argv` has two free places before it. On failure *step and errno say why, and nothing is
// left behind but a child to reap.
bool run_start(const struct drop_privileges *birth, const struct exec_cgroup *exec_cgroup,
	       const struct run_order *order, struct run *out, enum talk_step *step);

// Of a child that is not reaped yet, as the kernel knows it: it is dead; it has executed nothing
// since it was forked. A child that is both has run no part of its command, whatever it died of.
bool run_is_dead(int pid);
bool run_is_unexecuted(int pid, bool *out_stopped); // out_stopped may be NULL

// For the two who have children. The command's ends are in `child`, ours in `out`.
// `exec` says where it is to sit: of it only the flags and the size count.
bool run_make_ends(const struct talk_exec *exec, uint32_t uid, struct run *out,
		   struct child *child);
void run_drop_ends(struct child *child);
void run_drop(struct run *run);
// A child is born with the score that pid 1 has at that moment.
void run_raise_oom(const struct drop_privileges *birth, bool up);
