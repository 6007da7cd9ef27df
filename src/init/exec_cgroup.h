// The cgroups of commands, as pid 1 sees them: fds that the warden opened. No path to one exists in
// a box.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct exec_cgroup {
	int join[2]; // v2: the directory, and its cgroup.events; v1: two `tasks` files
	bool known;
};

// Number of fds that come with a new exec cgroup.
static inline int exec_cgroup_fds(bool by_clone)
{
	return by_clone ? 1 : 2;
}

// Takes the fds over, even on failure: then errno is set. A killed exec cgroup comes again, with
// fds of a new cgroup; the old ones are closed.
bool exec_cgroup_learn(struct exec_cgroup *exec_cgroup, bool by_clone, const int *fds);
// True if no process is in it. In doubt false.
bool exec_cgroup_is_empty(const struct exec_cgroup *exec_cgroup, bool by_clone);
// The same, except for the given pids, which may be alive or dying. v2: `procs` is from
// exec_cgroup_open_procs().
bool exec_cgroup_holds_only(const struct exec_cgroup *exec_cgroup, bool by_clone, int procs,
			    const int *pids, int count);
int exec_cgroup_open_procs(const struct exec_cgroup *exec_cgroup,
			   bool by_clone); // -1: cannot, or not needed
