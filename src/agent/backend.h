// The physical seam: everything that conversations do to sandboxes and processes goes through this
// table, so that a test or another kind of machine can stand behind it. Nothing above it kills,
// scans or removes anything.
//
// All of it runs in tasks and waits; every verb is bounded by its own timer (types/timers.h).
#pragma once

#include "base/err.h"
#include "types/env_map.h"
#include "types/lease.h"
#include "types/owner.h"

// Whose it is, and where. Borrowed for the call.
struct backend_site {
	const char *session;
	const char *sandbox;   // its id in the fleet
	const char *tenant;    // "": the operator's own
	const char *directory; // name of the session's directories there
	enum owner_class class;
	bool isolated; // nobody else lives in that sandbox
};

struct backend_launch {
	const char *const *argv; // NULL-ended
	const struct env_map *env;
	const char *instance;
	uint64_t generation;
};

// One runner that was seen: its processes count as one.
struct backend_found {
	char instance[LEASE_INSTANCE_LEN + 1]; // "": an older one, that tells none
	uint64_t generation;
	uint32_t exec_cgroup; // 1 + its number; 0: not known
	int pid;	      // of its first process; 0: that one is gone, others are left
	uint64_t start;
};
#define BACKEND_FOUND_MAX 8

// Absent is only what was looked at: a view that failed says nothing.
struct backend_view {
	bool failed;
	size_t count; // of `found`; there may be more
	struct backend_found found[BACKEND_FOUND_MAX];
	char why[LEASE_ERROR_MAX];
};

struct backend_room {
	uint64_t free, total; // bytes of the sandbox's own file system
	uint64_t inodes_free, inodes;
	uint64_t host_free; // bytes of what lies below
	bool cold;	    // no sandbox runs yet: only the host was measured
};

enum backend_end {
	BACKEND_END_SESSION, // the session's own directories, siblings live on
	BACKEND_END_SANDBOX, // all of it
};

// What cleaning up did.
struct backend_cleaned {
	uint32_t cleaned, skipped;
	int errnum; // ENOSPC, EIO, EROFS of the sandbox's own file system; else 0
};

struct backend {
	void *arg;
	// The sandbox runs, made or woken if need be. *out_cold: it was not there before.
	fallible (*provision)(void *arg, const struct backend_site *local, bool *out_cold);
	// The session's directories are there. INTERNAL, NO_SPACE …
	fallible (*prepare)(void *arg, const struct backend_site *local);
	// Starts the leased instance. Returns once it runs; its dialogue is the caller's.
	fallible (*launch)(void *arg, const struct backend_site *local,
			   const struct backend_launch *what, struct lease_place *out_place,
			   int *out_fd);
	// The dialogue of the instance that runs, after a restart of ours. NOT_FOUND no_runner.
	fallible (*attach)(void *arg, const struct backend_site *local, const struct lease *lease,
			   int *out_fd);
	// A connection to a runner that closed its dialogue and listens. BAD_PEER port_closed.
	fallible (*dial)(void *arg, const struct backend_site *local, uint16_t port, int *out_fd);
	// Everything of the session that lives. Never wakes a sandbox: one that does not run proves
	// absence.
	void (*look)(void *arg, const struct backend_site *local, const struct lease *lease,
		     struct backend_view *out);
	// To everything of the session: SIGTERM, or by force what cannot be outrun.
	void (*end)(void *arg, const struct backend_site *local, const struct lease *lease,
		    const struct backend_view *seen, bool force);
	// Is its first process alive? Read-only, and quick.
	bool (*lives)(void *arg, const struct backend_site *local, const struct lease *lease);
	// The idle deadline of the sandbox is moved on.
	void (*keep_alive)(void *arg, const struct backend_site *local);
	fallible (*capacity)(void *arg, const struct backend_site *local, struct backend_room *out);
	// Removes what dead siblings left: see agent/admission.h. `is_used` is asked by directory.
	void (*clean)(void *arg, const struct backend_site *local,
		      bool (*is_used)(const char *directory, void *of), void *of,
		      struct backend_cleaned *out);
	// Files and sandbox of a session whose runner is verified gone.
	fallible (*forget)(void *arg, const struct backend_site *local, enum backend_end end);
	// Every session of which a runner is seen in any sandbox that runs, known or not. `each`
	// gets whose it says it is, and where it was seen. UNAVAILABLE: ask again. NULL: nobody can
	// tell.
	fallible (*sessions)(void *arg, void (*each)(const struct backend_site *at, void *of),
			     void *of);
	// Its log, as JSON members of an object that is being written. Best effort.
	void (*logs)(void *arg, const struct backend_site *local, const struct lease *lease,
		     struct json_out *out);
};

// What a view means for a lease.
enum lease_seen backend_judge(const struct backend_view *view, const struct lease *lease);
