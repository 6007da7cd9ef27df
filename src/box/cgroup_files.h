// The cgroup files of all boxes of this instance, read from outside: no box is woken or asked.
#pragma once

#include "os/cgroup.h"
#include "types/counters.h"

#define CGROUP_FILES_DIR 320 // with its NUL

// A hierarchy: its path down to cove/INSTANCE. version 0: the host has none for this purpose.
struct cgroup_tree {
	int version;
	char dir[CGROUP_FILES_DIR];
};
struct cgroup_files {
	struct cgroup_host host; // its mounts are to be readable after the process is confined
	struct cgroup_tree cpu, throttle, memory, pids, io;
};

// `instance`: the name of this instance's cgroups (os/cgroup.h). Reads /proc: call it before the
// process is confined.
fallible cgroup_files_open(const char *instance, struct cgroup_files *out);
// Reads the counters of a box; `full`: those too that only a request needs. A counter that cannot
// be read is unknown; without a cgroup the identity is 0. Blocks: call it from a worker thread.
void cgroup_files_read(const struct cgroup_files *files, const char *box, bool full,
		       struct counters *out);
