// Which processes of a sandbox belong to which session: by cgroup, which no process in the box can
// choose, and by the marks in their environment, which count only within that sandbox.
#pragma once

#include "agent/backend.h"
#include "manager/box_ref.h"

#define DISCOVER_SESSION "COVE_SESSION"
#define DISCOVER_INSTANCE "COVE_INSTANCE"
#define DISCOVER_GENERATION "COVE_GENERATION"
#define DISCOVER_DIRECTORY "COVE_DIRECTORY"

// All processes of the session, grouped into runners. `cgroup` is the one that only the leased
// runner uses, as in a lease; 0: none. Waits; an error sets out->failed.
void discover(const struct box_ref *ref, const struct backend_site *local,
	      const struct lease *lease, uint32_t cgroup, struct backend_view *out);
// The start time of a process of the sandbox, in clock ticks. NOT_FOUND: no such process.
fallible discover_start(const struct box_ref *ref, int pid, uint64_t *out);
// Calls `each` with the session of each process that has all marks of a runner.
fallible discover_sessions(const struct box_ref *ref, void (*each)(const char *name, void *of),
			   void *of);
// Calls `each` with the directory that each marked process names.
fallible discover_directories(const struct box_ref *ref, void (*each)(const char *name, void *of),
			      void *of);
