// The cgroups of this instance: cove/<instance>/<box> holds the limits and pid 1. Its exec cgroups
// x-<n>, or x-<n>.<mark>, hold one command each. The files differ by host (docs/ISOLATION.md CG-1
// to CG-6); only group.c and groups.c know them.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/map.h"
#include "os/cgroup.h"
#include "types/limits.h"

#define GROUP_JOINS_MAX 7 // v1 hierarchies that a box joins, the shared devices among them
#define GROUP_CGROUP_JOINS 2
#define GROUP_MARK_ROOM 64 // with its NUL

#define GROUP_TREES_MAX 8

// One hierarchy in use.
struct group_tree {
	int version;
	unsigned holds;	    // bits of enum cgroup_controller that are used here
	bool leafy;	    // exec cgroups are made here
	bool shared;	    // one cgroup for the whole instance (devices)
	int top, cove, dir; // the mount's root, cove/, cove/<instance>
};

struct groups {
	struct group_tree trees[GROUP_TREES_MAX];
	int count;
	bool unified;	// exec cgroups are v2
	bool weighs_io; // the disk's I/O scheduler supports weights
	char instance[CGROUP_INSTANCE_ROOM];
	const char *word; // of the host, see cgroup_word()
};

#define each_tree(tree, groups)                                                                    \
	for (const struct group_tree *tree = (groups)->trees;                                      \
	     tree < (groups)->trees + (groups)->count; tree++)

// Descriptors for joining: the cgroup2 directory to clone into (-1: none), and the `tasks` files to
// write "0" to.
struct group_door {
	int into;
	int tasks[GROUP_JOINS_MAX];
	int task_count;
};

// An exec cgroup: descriptors to join it (a directory on v2, `tasks` on v1), and one that reads its
// CPU time.
struct group_exec {
	int joins[GROUP_CGROUP_JOINS];
	int join_count;
	int meter;
};

// Makes the instance's cgroups. UNAVAILABLE no_controller with a hint if one is missing.
fallible groups_open(const struct cgroup_host *host, const char *instance, struct groups **out);
// Removes the instance's own cgroups, and the parent if it is empty. All boxes must be gone.
void groups_close(struct groups *groups);
// Finds out whether the I/O scheduler of this disk supports cgroup v2 weights: bfq, or io.cost. If
// so the io controller is enabled for children, and group_limit() sets weights.
void groups_share_disk(struct groups *groups, dev_t disk);
// The same, by the text of /sys/dev/block/…/queue/scheduler and of io.cost.qos of the root cgroup.
bool groups_heeds_weight(const char *scheduler, const char *qos, dev_t disk);

// Makes a box's cgroups, without limits. `root` is the host's uid of the box's root. Undone on
// failure. The caller owns all fds.
fallible group_make(struct groups *groups, const char *box, uint32_t root,
		    struct group_door *out_door);
// Limits reads and writes to `bytes` per second each, on each of these disks. INVALID no_io_limit
// if none of them can be limited: they have no queue, or there is no io controller.
fallible group_limit_io(struct groups *groups, const char *box, uint64_t bytes, const dev_t *disks,
			int count);
// The box's I/O weight, 100 for each CPU that it may use. Nothing is set where the kernel has no
// such file.
void group_weigh_io(struct groups *groups, const char *box, uint32_t cpu_milli);
// Sets the limits. *out_oom counts OOM kills.
fallible group_limit(struct groups *groups, const char *box, const struct limits *limits,
		     int *out_oom);
// The limit on memory in force, in bytes; UINT64_MAX: none, or unknown.
uint64_t group_memory_limit(struct groups *groups, const char *box);
// The box's memory cgroup, for group_shrink(). INVALID no_controller.
fallible group_memory_open(struct groups *groups, const char *box, int *out_dir);
// Lowers the limit on memory, after the kernel has freed what is above it: no process is killed
// for it. CONFLICT below_use: too much is left, and the limit stays. Blocks, however long that
// takes: for a child. A child that is killed leaves a box slowed down until group_unthrottle().
fallible group_shrink(int dir, uint64_t bytes);
void group_unthrottle(struct groups *groups, const char *box);
// Makes an exec cgroup; its number is unique. `mark` is part of its name; "": none. *mount is the
// box's detached mount, through which its exec cgroups are opened; made if -1, owned by the caller.
// If `mount` is NULL the directory gets a detached mount of its own: its last close unmounts, and
// waits for an RCU grace period.
fallible group_exec(struct groups *groups, const char *box, uint32_t exec_cgroup, const char *mark,
		    uint32_t root, int *mount, struct group_exec *out);
// The CPU meter of an exec cgroup that exists, and whether it has a mark.
fallible group_exec_meter(struct groups *groups, const char *box, uint32_t exec_cgroup,
			  int *out_meter, bool *out_marked);
// True: the kernel says that there is no such exec cgroup.
bool group_exec_is_gone(struct groups *groups, const char *box, uint32_t exec_cgroup);
// Removes an exec cgroup with a mark. False: it has no mark, or is not empty.
bool group_exec_retire(struct groups *groups, const char *box, uint32_t exec_cgroup);
// Removes an exec cgroup. False: not empty.
bool group_exec_drop(struct groups *groups, const char *box, uint32_t exec_cgroup);
// Lifts the CPU quota, so that a killed box exits at full speed.
void group_lift(struct groups *groups, const char *box);
// Kills all processes in an exec cgroup. False: not yet empty, call again soon (v1).
bool group_kill(struct groups *groups, const char *box, uint32_t exec_cgroup);
// Thaws an exec cgroup that an abandoned kill left frozen (v1).
void group_thaw(struct groups *groups, const char *box, uint32_t exec_cgroup);
// Removes a box's cgroups. False: still busy, call again. Idempotent.
bool group_drop(struct groups *groups, const char *box, uint32_t exec_cgroups);

// Kills every process in the instance's cgroups, except those of boxes in `known`, waits for all to
// exit and removes the cgroups. Blocks, at most GROUPS_DESTROY_MS; then UNAVAILABLE stuck_leftover.
#define GROUPS_DESTROY_MS 10000
fallible groups_destroy(struct groups *groups, const struct map *known, int *out_destroyed);
// The same for one box id. True: gone. Does not block: call it again.
bool group_destroy(struct groups *groups, const char *box);

// Questions to the kernel, for a warden that has just started. Calls `each` for the
// name of every box that has a cgroup in any hierarchy, possibly more than once.
void groups_each(struct groups *groups, void (*each)(void *arg, const char *box), void *arg);
// The pid of a box's pid 1, by its cgroup and its pid namespace; 0: there is none; -1 with errno:
// unknown.
int group_first(struct groups *groups, const char *box);
// True if a process was moved into the box's cgroups from outside: it would be killed with the box.
bool group_has_outsider(struct groups *groups, const char *box);
// The highest number of an exec cgroup plus one.
uint32_t group_cgroups(struct groups *groups, const char *box);
fallible group_oom(struct groups *groups, const char *box, int *out_oom);
// CPU time that a box has used, with all its exec cgroups; 0: unknown. On v2 the kernel flushes the
// per-CPU counters for it, about a millisecond.
uint64_t group_cpu_us(struct groups *groups, const char *box);
// Bytes of memory, and number of tasks; UINT64_MAX: unknown.
uint64_t group_memory(struct groups *groups, const char *box);
uint64_t group_pids(struct groups *groups, const char *box);
uint32_t groups_pids(struct groups *groups); // processes in all boxes together

// Freezes or thaws a box with all its exec cgroups. -1 with errno.
int group_pause(struct groups *groups, const char *box, bool frozen);
enum group_pulse { GROUP_RUNS, GROUP_FREEZING, GROUP_FROZEN, GROUP_UNKNOWN };
enum group_pulse group_pulse(struct groups *groups, const char *box);

void group_door_close(struct group_door *door);
void group_exec_close(struct group_exec *exec_cgroup);
