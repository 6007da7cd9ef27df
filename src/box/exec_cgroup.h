// Exec cgroups: which one an exec gets, what it has used, its kill.
#pragma once

#include "box/private.h"

struct box_cgroup *box_exec_cgroup_add(struct box *box, uint32_t number, int meter, const int *join,
				       int joins);
// Takes a cgroup that is empty, or not known to be used. A doubtful one is tried with
// TALK_EXEC_IF_EMPTY; if pid 1 says that it is busy, box_exec_cgroup_give() it and take another
// with *tries counted on. May wait for the warden. EXHAUSTED too_many_execs.
fallible box_exec_cgroup_take(struct box *box, int *tries, struct box_cgroup **out);
// Opens a cgroup of a previous daemon in which something runs: pid 1 has it. A spent one that is
// gone has no meter.
fallible box_exec_cgroup_again(struct box *box, uint32_t number, struct box_cgroup **out);
// Kills what lives in a spent cgroup of a previous daemon. Before any cgroup is ordered, which
// could get its number. Waits.
fallible box_exec_cgroup_kill_spent(struct box_cgroup *exec_cgroup);
// Orders a cgroup with `mark` in its name, as the host sees it; used once.
fallible box_exec_cgroup_mark(struct box *box, const char *mark, struct box_cgroup **out);
// Removes a marked cgroup that was left, if it is empty. Waits for the warden.
void box_exec_cgroup_retire(struct box *box, uint32_t number);
void box_exec_cgroup_give(struct box_cgroup *exec_cgroup, bool empty);
void box_exec_cgroup_free_all(struct box *box);
// Records whether the cgroup exists with its fds not open.
void box_exec_cgroup_left(struct box *box, uint32_t number, bool left);
// Closes the fds of idle cgroups. True: the box held cgroup fds and holds none now.
bool box_exec_cgroup_freeze(struct box *box);

// `exec` runs in the cgroup, which pid 1 found empty: drops an older limit.
void box_exec_cgroup_begin(struct box_cgroup *exec_cgroup, struct exec *exec);

uint64_t box_exec_cgroup_used_us(const struct box_cgroup *exec_cgroup);

// Limits the CPU time of the cgroup from now on. When it is used up the exec is told; if the exec
// has ended, the rest is killed.
void box_exec_cgroup_limit(struct box_cgroup *exec_cgroup, uint64_t cpu_us);
// Kills the cgroup in the background. It is spent.
void box_exec_cgroup_kill(struct box_cgroup *exec_cgroup);
// The same, and waits until it is empty; a cgroup that is not taken is gone then. For shielded
// tasks.
void box_exec_cgroup_kill_wait(struct box_cgroup *exec_cgroup);
