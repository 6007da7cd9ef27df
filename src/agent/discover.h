// Which processes of a sandbox belong to which session, as the sandbox itself shows them: by the
// cgroup they are in, which nobody in a sandbox can choose, and by the marks in their environment,
// which count only within that sandbox.
#pragma once

#include "agent/backend.h"
#include "manager/box_ref.h"

#define DISCOVER_SESSION "COVE_SESSION"
#define DISCOVER_INSTANCE "COVE_INSTANCE"
#define DISCOVER_GENERATION "COVE_GENERATION"
#define DISCOVER_DIRECTORY "COVE_DIRECTORY"

// Everything of the session, grouped into runners. `leaf` is the cgroup that is the leased
// runner's alone, told as in a lease; 0: none is. Waits; fails into out->failed.
void discover(const struct box_ref *ref, const struct backend_site *local,
	      const struct lease *lease, uint32_t leaf, struct backend_view *out);
// When a process of the sandbox began, in its own ticks. NOT_FOUND: there is none.
fallible discover_start(const struct box_ref *ref, int pid, uint64_t *out);
// Calls `each` with the session of each process that bears all marks of a runner.
fallible discover_sessions(const struct box_ref *ref, void (*each)(const char *name, void *of),
			   void *of);
// Calls `each` with the directory that each marked process names.
fallible discover_directories(const struct box_ref *ref, void (*each)(const char *name, void *of),
			      void *of);
