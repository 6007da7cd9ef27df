// Events, in one order for the whole host. An id is never given twice, also not after a prune. Each
// tenant has its own count beside that, without a gap: what it is told of the host's would tell how
// busy others are.
#pragma once

#include "store/store.h"

struct store_event {
	uint64_t id; // given here
	int64_t time_ms;
	const char *tenant, *kind, *sandbox, *session; // "": none
	const char *fields;			       // JSON object
};

// Waits until they are durable. Ids are consecutive: *out_first, *out_first + 1 …
fallible store_events_add(struct store *store, const struct store_event *events, size_t count,
			  uint64_t *out_first);
fallible store_events_add_in(struct db *db, const struct store_event *event, uint64_t *out_id);

// Up to `max` events behind `after`, oldest first. *out: `last` is what to go on from, also when
// none matched; `newest` is the last number that was given. `missed`: some behind `after` are
// forgotten, or it was never given; `oldest` is the first that is kept, or the next that will come.
// The words live in the arena.
struct store_events_ask {
	const char *tenant; // NULL: of all
	bool own;	    // numbers are the tenant's, else the host's
	uint64_t after;	    // 0: from the first that is kept; none is missed then
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
// Forgets events before that time, and all but the newest `keep` of each tenant. In steps: nobody
// waits for all of it.
fallible store_events_prune(struct store *store, int64_t before_ms, uint64_t keep,
			    uint64_t *out_count);
