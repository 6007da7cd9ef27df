// The backend interface: everything that agent sessions do to sandboxes and processes goes through
// this table, so that a test or another kind of machine can implement it. No other file of agent/
// kills, scans or removes anything.
//
// All functions run in tasks and wait; each is bounded by its own timer (types/timers.h).
#pragma once

#include "base/err.h"
#include "types/env_map.h"
#include "types/lease.h"
#include "types/owner.h"
#include "types/who.h"

struct choices;

// Whose session it is, and where. Borrowed for the call.
struct backend_site {
	const char *session;
	const char *sandbox;   // the id of its sandbox
	const char *tenant;    // "": the operator's own
	const char *directory; // name of the session's directories in the sandbox
	enum owner_class class;
	bool isolated;		       // no other session is in that sandbox
	const struct choices *choices; // how the sandbox is made; NULL: unknown
};

struct backend_launch {
	const char *const *argv; // NULL-ended
	const struct env_map *env;
	const char *instance;
	uint64_t generation;
};

// One observed runner: all its processes count as one.
struct backend_found {
	char instance[LEASE_INSTANCE_LEN + 1]; // "": an older runner without one
	uint64_t generation;
	uint32_t exec_cgroup; // 1 + its number; 0: unknown
	int pid;	      // of its first process; 0: that one has exited, others are left
	uint64_t start;
};
#define BACKEND_FOUND_MAX 8

// Absence must be observed: a failed view says nothing.
struct backend_view {
	bool failed;
	size_t count; // of `found`; there may be more runners
	struct backend_found found[BACKEND_FOUND_MAX];
	char why[LEASE_ERROR_MAX];
};

struct backend_room {
	uint64_t free, total; // bytes of the sandbox's own file system
	uint64_t inodes_free, inodes;
	uint64_t host_free; // bytes of the file system below
	bool cold;	    // no sandbox is running yet: only the host was measured
};

enum backend_end {
	BACKEND_END_SESSION, // the session's directories; sibling sessions keep the sandbox
	BACKEND_END_SANDBOX, // the whole sandbox
};

// The result of removing stale files.
struct backend_cleaned {
	uint32_t cleaned, skipped;
	int errnum; // ENOSPC, EIO, EROFS of the sandbox's own file system; else 0
};

struct backend {
	void *arg;
	// Whether `who` may have a sandbox of these choices, and whether the one that exists is
	// such. Sets the template, if none is chosen. CONFLICT sandbox_differs, what create_check()
	// refuses.
	fallible (*check)(void *arg, const struct who *who, const struct backend_site *local,
			  struct choices *choices);
	// Makes the sandbox run, creating or waking it if needed. *out_cold: it did not exist
	// before.
	fallible (*provision)(void *arg, const struct backend_site *local, bool *out_cold);
	// Whether the sandbox can be controlled. Read-only, within 30 s. TIMEOUT, INTERNAL …
	fallible (*probe)(void *arg, const struct backend_site *local);
	// Creates the session's directories. *out_new: its files are to be written.
	fallible (*prepare)(void *arg, const struct backend_site *local, bool *out_new);
	fallible (*fill)(void *arg, const struct backend_site *local);
	// Starts the leased instance. Returns once it runs; the caller owns its socket.
	fallible (*launch)(void *arg, const struct backend_site *local,
			   const struct backend_launch *what, struct lease_place *out_place,
			   int *out_fd);
	// The socket of the running instance, after a restart of the daemon. NOT_FOUND no_runner.
	fallible (*attach)(void *arg, const struct backend_site *local, const struct lease *lease,
			   int *out_fd);
	// Connects to a runner that closed its socket and listens. BAD_PEER port_closed.
	fallible (*dial)(void *arg, const struct backend_site *local, uint16_t port, int *out_fd);
	// Observes every live process of the session. Never wakes a sandbox: one that is not
	// running proves absence.
	void (*look)(void *arg, const struct backend_site *local, const struct lease *lease,
		     struct backend_view *out);
	// Signals all processes of the session: SIGTERM, or by force a kill of the whole cgroup.
	void (*end)(void *arg, const struct backend_site *local, const struct lease *lease,
		    const struct backend_view *seen, bool force);
	// True if its first process lives. Read-only and quick.
	bool (*lives)(void *arg, const struct backend_site *local, const struct lease *lease);
	// Extends the idle deadline of the sandbox.
	void (*keep_alive)(void *arg, const struct backend_site *local);
	fallible (*capacity)(void *arg, const struct backend_site *local, struct backend_room *out);
	// Removes files of dead siblings: see agent/admission.h. `is_used` is called by directory.
	void (*clean)(void *arg, const struct backend_site *local,
		      bool (*is_used)(const char *directory, void *of), void *of,
		      struct backend_cleaned *out);
	// Removes files or sandbox of a session whose runner is verified gone.
	fallible (*forget)(void *arg, const struct backend_site *local, enum backend_end end);
	// Calls `each` for every session that has a runner in any running sandbox, known or not,
	// with its owner and place. UNAVAILABLE: ask again. NULL: not supported.
	fallible (*sessions)(void *arg, void (*each)(const struct backend_site *at, void *of),
			     void *of);
	// Writes the runner's log as JSON members of an open object. Best effort.
	void (*logs)(void *arg, const struct backend_site *local, const struct lease *lease,
		     struct json_out *out);
};
