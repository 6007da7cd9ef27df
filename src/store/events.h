// Events, in one order for the whole host. An id is never given twice, also not after a prune.
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

// Up to `max` events behind `after`, of one tenant (NULL: of all), oldest first. *out_last is what
// to go on from, also when none matched. *out_oldest is the oldest id still kept (0: none): who
// asks for less has missed some. The words live in the arena.
struct store_events {
	struct store_event *at;
	size_t count;
	uint64_t last, oldest, newest;
};
fallible store_events_page(struct store *store, uint64_t after, const char *tenant, size_t max,
			   struct arena *arena, struct store_events *out);
// Forgets events before that time, and all but the newest `keep`.
fallible store_events_prune(struct store *store, int64_t before_ms, uint64_t keep,
			    uint64_t *out_count);
