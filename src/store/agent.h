// Rows of agent sessions, leases and runs. A row is the owner's opaque `body`, which has a format
// version of its own, and a few columns for lookups.
//
// Every row has a version, and a write names the version that it was based on: a decision never
// overwrites a state that it did not know.
#pragma once

#include "store/store.h"

enum store_agent_kind { STORE_SESSION, STORE_LEASE, STORE_RUN, STORE_AGENT_KINDS };

struct store_agent {
	enum store_agent_kind kind;
	const char *id;	     // session and lease: the session's key among all tenants; run: its own
	const char *session; // of a run; else "" or the id
	const char *tenant;
	const char *box;     // "": none yet
	const char *state;   // a word of the owner
	int64_t deadline_ms; // wall clock; 0: none
	int64_t made_ms;     // set by the first put
	uint64_t generation;
	uint64_t version; // that was read; 0: the row must not exist
	struct str body;
	bool unreadable; // of a load: a column has a wrong type; not the same as absent
};

enum store_agent_way { STORE_AGENT_PUT, STORE_AGENT_DROP };

struct store_agent_change {
	enum store_agent_way way;
	struct store_agent row; // of a drop: kind, id, version (0: any)
};

// All changes or none, durable on return. CONFLICT state_stale: a row has another version by now,
// or is gone: read again and decide again. A put of version v leaves version v + 1. A session id is
// used only once: a new session whose id was ever used is CONFLICT session_taken, also after a
// drop.
fallible store_agent_commit(struct store *store, const struct store_agent_change *changes,
			    size_t count);

// Every row of a kind, by id; texts are in the arena.
fallible store_agent_load(struct store *store, enum store_agent_kind kind, struct arena *arena,
			  struct store_agent **out, size_t *out_count);
// One row; NULL: none.
fallible store_agent_get(struct store *store, enum store_agent_kind kind, const char *id,
			 struct arena *arena, struct store_agent **out);
// Runs of a session, by id; texts are in the arena.
fallible store_agent_runs(struct store *store, const char *session, struct arena *arena,
			  struct store_agent **out, size_t *out_count);
// Up to `max` of them, newest first, before the run `before` (NULL: from the newest).
fallible store_agent_runs_page(struct store *store, const char *session, const char *before,
			       size_t max, struct arena *arena, struct store_agent **out,
			       size_t *out_count);
