// The cgroups of execs, as pid 1 sees them: fds that the warden opened. A path to one exists in no
// box.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct leaf {
	int join[2]; // v2: the directory, and its cgroup.events; v1: two `tasks` files
	bool known;
};

// Fds that come with a new leaf.
static inline int leaf_fds(bool by_clone)
{
	return by_clone ? 1 : 2;
}

// Takes the fds over, also when it fails: then errno is set. A leaf that was killed comes again,
// with fds of a new cgroup; the old ones are let go.
bool leaf_learn(struct leaf *leaf, bool by_clone, const int *fds);
// Nothing lives in it. When in doubt the answer is no.
bool leaf_is_empty(const struct leaf *leaf, bool by_clone);
// The same, but for processes that are known to live there, or to die. v2: `procs` is from
// leaf_open_procs().
bool leaf_holds_only(const struct leaf *leaf, bool by_clone, int procs, const int *pids, int count);
int leaf_open_procs(const struct leaf *leaf, bool by_clone); // -1: cannot, or not needed
