// Leaves: which cgroup an exec gets, what it has used, and its end by force.
#pragma once

#include "box/private.h"

struct box_cgroup *box_exec_cgroup_add(struct box *box, uint32_t number, int meter, const int *join,
				       int joins);
// A leaf in which nothing lives, or nothing is known to. A doubtful one is tried with
// TALK_EXEC_IF_EMPTY; when pid 1 says that it is busy, box_exec_cgroup_give() it and take another
// with *tries counted on. May wait for the warden. EXHAUSTED too_many_execs.
fallible box_exec_cgroup_take(struct box *box, int *tries, struct box_cgroup **out);
// One that an earlier daemon used, and in which something runs: pid 1 knows it. One that is spent
// and gone has no meter.
fallible box_exec_cgroup_again(struct box *box, uint32_t number, struct box_cgroup **out);
// Ends what lives in a spent one of an earlier daemon. Before any leaf is ordered: a new one could
// have its number. Waits.
fallible box_exec_cgroup_kill_spent(struct box_cgroup *exec_cgroup);
// One that shows `mark` in the name of its cgroup, as the host sees it; it serves once.
fallible box_exec_cgroup_mark(struct box *box, const char *mark, struct box_cgroup **out);
// One that was left with a mark goes, if nothing lives in it. Waits for the warden.
void box_exec_cgroup_retire(struct box *box, uint32_t number);
void box_exec_cgroup_give(struct box_cgroup *exec_cgroup, bool empty);
void box_exec_cgroup_free_all(struct box *box);
// The leaf exists, and its fds are to be asked for when it is wanted; or that is no longer so.
void box_exec_cgroup_left(struct box *box, uint32_t number, bool left);
// Closes what an idle box does not need. True: it holds no fd of a leaf any more, and did.
bool box_exec_cgroup_freeze(struct box *box);

// pid 1 found it empty, and `exec` runs in it: an older limit is void.
void box_exec_cgroup_begin(struct box_cgroup *exec_cgroup, struct exec *exec);

uint64_t box_exec_cgroup_used_us(const struct box_cgroup *exec_cgroup);
uint64_t box_oom_kills(const struct box *box);

// From now on the leaf may use so much more CPU time, by whomever; then the command is told, or
// when the exec has ended, the rest of it is killed.
void box_exec_cgroup_limit(struct box_cgroup *exec_cgroup, uint64_t cpu_us);
// Orders it killed, in the background. The leaf is spent.
void box_exec_cgroup_kill(struct box_cgroup *exec_cgroup);
// The same, and waits until nothing lives in it; a leaf that nobody has taken is gone then. For
// tasks that are shielded.
void box_exec_cgroup_kill_wait(struct box_cgroup *exec_cgroup);
