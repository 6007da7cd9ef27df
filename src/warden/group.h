// The cgroups of this instance: cove/<instance>/<box> holds the limits and pid 1, its leaves x-<n>,
// or x-<n>.<mark>, hold one execution each. Which files that takes depends on the host
// (docs/ISOLATION.md CG-1 to CG-6); nobody outside this file knows.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "os/cgroup.h"
#include "types/limits.h"

#define GROUP_NAME_ROOM 9 // eight hex digits and a NUL
#define GROUP_JOINS_MAX 7 // v1 hierarchies that a box joins, the shared devices among them
#define GROUP_CGROUP_JOINS 2
#define GROUP_MARK_ROOM 64 // with its NUL

#define GROUP_TREES_MAX 8

// One hierarchy in use.
struct group_tree {
	int version;
	unsigned holds;	    // bits of enum cgroup_controller that we use here
	bool leafy;	    // leaves are made here
	bool shared;	    // one group for the whole instance (devices)
	int top, cove, dir; // the mount's root, cove/, cove/<instance>
};

struct groups {
	struct group_tree trees[GROUP_TREES_MAX];
	int count;
	bool unified;	// leaves are v2
	bool weighs_io; // the disk's scheduler heeds weights
	char instance[GROUP_NAME_ROOM];
	const char *word;
};

// What a process needs to get in: the cgroup2 directory to be cloned into (-1: none), and the
// `tasks` files to write "0" to.
struct group_door {
	int into;
	int tasks[GROUP_JOINS_MAX];
	int task_count;
};

// An execution's leaf: what joins it (a directory on v2, `tasks` on v1), and what counts its CPU
// time.
struct group_exec {
	int joins[GROUP_CGROUP_JOINS];
	int join_count;
	int meter;
};

// The instance's name: one data directory, one instance, so its next life finds its groups again.
fallible groups_name(int data, char out[GROUP_NAME_ROOM]);
// Makes the instance's groups. UNAVAILABLE no_controller with a hint when one cannot be had.
fallible groups_open(const struct cgroup_host *host, const char *instance, struct groups **out);
// Removes the instance's own groups, and the parent if it is empty; boxes must be gone.
void groups_close(struct groups *groups);
const char *groups_word(const struct groups *groups);
bool groups_join_by_clone(const struct groups *groups); // leaves are v2
// Finds out whether the scheduler of this disk heeds weights of cgroup v2: bfq, or the cost model
// of the io controller. If so the controller is handed down, and group_limit() sets weights.
void groups_share_disk(struct groups *groups, dev_t disk);
// The same by what /sys/dev/block/…/queue/scheduler says, and io.cost.qos of the root cgroup.
bool groups_heeds_weight(const char *scheduler, const char *qos, dev_t disk);

// A box's groups, without limits. `root` is the host's id of the box's root. On failure nothing is
// left. All fds are the caller's.
fallible group_make(struct groups *groups, const char *box, uint32_t root,
		    struct group_door *out_door);
// At most `bytes` a second read from each of these disks, and as many written. INVALID
// no_io_limit when not one of them can be limited: they have no queue, or there is no io
// controller.
fallible group_limit_io(struct groups *groups, const char *box, uint64_t bytes, const dev_t *disks,
			int count);
// The box's share of the disk, 100 for each CPU that it may use. Where a file is missing the kernel
// has no such weight, and nothing is set.
void group_weigh_io(struct groups *groups, const char *box, uint32_t cpu_milli);
// Their limits. *out_oom counts OOM kills.
fallible group_limit(struct groups *groups, const char *box, const struct limits *limits,
		     int *out_oom);
// `mark` is shown in its name; "": none. There is one leaf of a number. *mount is the box's
// detached mount, through which its leaves are opened; it is made when it is -1, and the caller's.
// Without one (NULL) the leaf's directory is a detached mount of its own: the last close unmounts
// it, and waits for an RCU grace period.
fallible group_exec(struct groups *groups, const char *box, uint32_t exec_cgroup, const char *mark,
		    uint32_t root, int *mount, struct group_exec *out);
// The meter of a leaf that exists, and whether it has a mark.
fallible group_exec_meter(struct groups *groups, const char *box, uint32_t exec_cgroup,
			  int *out_meter, bool *out_marked);
// True: the kernel says that there is no such leaf.
bool group_exec_is_gone(struct groups *groups, const char *box, uint32_t exec_cgroup);
// Removes a leaf with a mark. False: it has none, or somebody is still in it.
bool group_exec_retire(struct groups *groups, const char *box, uint32_t exec_cgroup);
// Removes one leaf. False: somebody is still in it.
bool group_exec_drop(struct groups *groups, const char *box, uint32_t exec_cgroup);
// Lets a dying box die at full speed.
void group_lift(struct groups *groups, const char *box);
// Kills what is in a leaf. False: not yet empty, call again in a moment (v1).
bool group_kill(struct groups *groups, const char *box, uint32_t exec_cgroup);
// Lets go of a leaf that a kill which was given up has left frozen (v1).
void group_thaw(struct groups *groups, const char *box, uint32_t exec_cgroup);
// Removes a box's groups. False: still busy, call again. Idempotent.
bool group_drop(struct groups *groups, const char *box, uint32_t exec_cgroups);

// What the kernel shows (group_find.c), for a warden that has only begun.
// Calls `each` for the name of every box that has a group in any hierarchy, some more than once.
void groups_each(struct groups *groups, void (*each)(void *arg, const char *box), void *arg);
// The process that is pid 1 of a box, by its group and its own pid namespace; 0: there is none; -1
// with errno: that cannot be told.
int group_first(struct groups *groups, const char *box);
// The name of a leaf's directory in the box's, as that hierarchy has it: "x-3", "x-3.mark"; false:
// there is no such leaf.
#define GROUP_CGROUP_ROOM (16 + GROUP_MARK_ROOM)
bool group_exec_find(const struct group_tree *tree, const char *box, uint32_t exec_cgroup,
		     char out[GROUP_CGROUP_ROOM]);
// Calls `each` for the name of every leaf with a mark.
void group_marked(const struct group_tree *tree, const char *box,
		  void (*each)(const struct group_tree *tree, const char *box,
			       const char *exec_cgroup));
// How many leaves there are, counted from 0 to the last that exists.
uint32_t group_cgroups(struct groups *groups, const char *box);
fallible group_oom(struct groups *groups, const char *box, int *out_oom);
// CPU time that a box has used, with all its leaves; 0: unknown. On v2 the kernel sums the counters
// of all CPUs up for it, about a millisecond.
uint64_t group_cpu_us(struct groups *groups, const char *box);
// Bytes of memory, and processes with their threads; UINT64_MAX: unknown.
uint64_t group_memory(struct groups *groups, const char *box);
uint64_t group_pids(struct groups *groups, const char *box);
uint32_t groups_pids(struct groups *groups); // processes in all boxes together

// Freezes a box with all its leaves, or lets it run again. -1 with errno.
int group_pause(struct groups *groups, const char *box, bool frozen);
enum group_pulse { GROUP_RUNS, GROUP_FREEZING, GROUP_FROZEN, GROUP_UNKNOWN };
enum group_pulse group_pulse(struct groups *groups, const char *box);

void group_door_close(struct group_door *door);
void group_exec_close(struct group_exec *exec_cgroup);
