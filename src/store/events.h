// Events, in one order for the whole host. An id is never reused, not even after a prune. Each
// tenant also has its own sequence without gaps: the host's ids would reveal how busy others are.
#pragma once

#include "store/store.h"

struct store_event {
	uint64_t id, own; // set here: among all events, among those of the tenant
	int64_t time_ms;
	const char *tenant, *kind, *sandbox, *session; // "": none
	const char *fields;			       // JSON object
};

// `out_id` may be NULL.
fallible store_events_add_in(struct db *db, const struct store_event *event, uint64_t *out_id);

// Up to `max` events after `after`, oldest first. *out: `last` is where to continue, also when none
// matched; `newest` is the last id. `missed`: some after `after` were pruned, or it was never used;
// `oldest` is the first that is kept, or the next. Texts are in the arena.
struct store_events_ask {
	const char *tenant; // NULL: of all
	bool own;	    // ids are the tenant's, else the host's
	uint64_t after;	    // 0: from the first that is kept; `missed` is then false
	size_t max;
};
struct store_events {
	struct store_event *at;
	size_t count;
	uint64_t last, oldest, newest;
	bool missed;
};
fallible store_events_page(struct store *store, const struct store_events_ask *ask,
			   struct arena *arena, struct store_events *out);
// Removes events before that time, and all but the newest `keep` of each tenant. Runs in steps, so
// that commits wait only briefly.
fallible store_events_prune(struct store *store, int64_t before_ms, uint64_t keep,
			    uint64_t *out_count);
