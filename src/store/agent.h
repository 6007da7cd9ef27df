// Conversations: sessions, their leases, their runs. A row is what its owner wrote (`body`, opaque,
// with a version of its own inside) beside a few columns to look by.
//
// Every row has a version, and a write names the one that it was based on: a decision is never
// written over a state that it did not know.
#pragma once

#include "store/store.h"

enum store_agent_kind { STORE_SESSION, STORE_LEASE, STORE_RUN, STORE_AGENT_KINDS };

struct store_agent {
	enum store_agent_kind kind;
	const char
		*id; // session and lease: the session's, among those of all tenants; run: its own
	const char *session; // of a run; else "" or the same as id
	const char *tenant;
	const char *box;     // the sandbox; "": not yet
	const char *state;   // a word of the owner's
	int64_t deadline_ms; // wall clock; 0: none
	int64_t made_ms;     // of one that is put for the first time
	uint64_t generation;
	uint64_t version; // that it was read with; 0: it must not be there yet
	struct str body;
	bool unreadable; // of a load: a column is not what it should be. Never to be taken for
			 // absent
};

enum store_agent_way { STORE_AGENT_PUT, STORE_AGENT_DROP };

struct store_agent_change {
	enum store_agent_way way;
	struct store_agent row; // of a drop: kind, id, version (0: whatever it is)
};

// All of them or none, durable on return. CONFLICT state_stale: one of them has another version by
// now, or is gone; read again and decide anew. A put of version v leaves version v + 1.
// A session id is used once and for all: putting a new session whose id was ever used is CONFLICT
// session_taken, also after that one was dropped.
fallible store_agent_commit(struct store *store, const struct store_agent_change *changes,
			    size_t count);
fallible store_agent_commit_in(struct db *db, const struct store_agent_change *changes,
			       size_t count);

// Every row of a kind, by id; the words live in the arena.
fallible store_agent_load(struct store *store, enum store_agent_kind kind, struct arena *arena,
			  struct store_agent **out, size_t *out_count);
// One row; NULL: there is none.
fallible store_agent_get(struct store *store, enum store_agent_kind kind, const char *id,
			 struct arena *arena, struct store_agent **out);
// Runs of a session, by id; the words live in the arena.
fallible store_agent_runs(struct store *store, const char *session, struct arena *arena,
			  struct store_agent **out, size_t *out_count);
// Up to `max` of them, the newest first, behind the run `before` (NULL: from the newest on).
fallible store_agent_runs_page(struct store *store, const char *session, const char *before,
			       size_t max, struct arena *arena, struct store_agent **out,
			       size_t *out_count);
// Was that session id ever used?
fallible store_agent_used(struct store *store, const char *id, bool *out);
