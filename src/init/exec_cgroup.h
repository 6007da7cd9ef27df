// The cgroups of execs, as pid 1 sees them: fds that the warden opened. A path to one exists in no
// box.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct exec_cgroup {
	int join[2]; // v2: the directory, and its cgroup.events; v1: two `tasks` files
	bool known;
};

// Fds that come with a new leaf.
static inline int exec_cgroup_fds(bool by_clone)
{
	return by_clone ? 1 : 2;
}

// Takes the fds over, also when it fails: then errno is set. A leaf that was killed comes again,
// with fds of a new cgroup; the old ones are let go.
bool exec_cgroup_learn(struct exec_cgroup *exec_cgroup, bool by_clone, const int *fds);
// Nothing lives in it. When in doubt the answer is no.
bool exec_cgroup_is_empty(const struct exec_cgroup *exec_cgroup, bool by_clone);
// The same, but for processes that are known to live there, or to die. v2: `procs` is from
// exec_cgroup_open_procs().
bool exec_cgroup_holds_only(const struct exec_cgroup *exec_cgroup, bool by_clone, int procs,
			    const int *pids, int count);
int exec_cgroup_open_procs(const struct exec_cgroup *exec_cgroup,
			   bool by_clone); // -1: cannot, or not needed
