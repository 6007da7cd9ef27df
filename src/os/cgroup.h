// The cgroup mounts of this host. A hybrid host has some controllers on cgroup v1 and a cgroup2
// mount beside them, so the version is per controller.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

// clang-format off
#define CGROUP_CONTROLLERS(X) \
	X(MEMORY, "memory") X(PIDS, "pids") X(CPU, "cpu") \
	X(CPUACCT, "cpuacct") X(FREEZER, "freezer") X(DEVICES, "devices")
// clang-format on
enum cgroup_controller {
#define X(name, word) CGROUP_##name,
	CGROUP_CONTROLLERS(X)
#undef X
		CGROUP_COUNT
};
#define CGROUP_MOUNTS_MAX 16

struct cgroup_mount {
	int version;	      // 1 or 2
	unsigned controllers; // bits of enum cgroup_controller
	char path[256];
};

struct cgroup_host {
	struct cgroup_mount mounts[CGROUP_MOUNTS_MAX];
	int count;
	int where[CGROUP_COUNT]; // an index of mounts; -1: nowhere
	int unified;		 // the cgroup2 mount, whatever it controls; -1: none
};

// Reads /proc/self/mountinfo. INTERNAL if that fails; a host without cgroups has a count of 0.
fallible cgroup_discover(struct cgroup_host *out);
const char *cgroup_controller_word(enum cgroup_controller controller);
// "v1", "hybrid", "v2" or "none".
const char *cgroup_word(const struct cgroup_host *host);

// The name of an instance's cgroups, cove/NAME, derived from its data directory: the next warden
// finds them again.
#define CGROUP_INSTANCE_ROOM 9 // eight hex digits and a NUL
fallible cgroup_instance(int data, char out[CGROUP_INSTANCE_ROOM]);
