// Small values by name: alerts, fallback boxes, learned settings. The part of a name before the
// slash is its owner: "alert/…", "route/…".
#pragma once

#include "store/store.h"

fallible store_kv_put(struct store *store, const char *name, struct str value);
fallible store_kv_drop(struct store *store, const char *name);
void store_kv_queue(struct store *store, const char *name, struct str value); // at NULL: removes it
fallible store_kv_put_in(struct db *db, const char *name, struct str value);
fallible store_kv_drop_in(struct db *db, const char *name);

struct store_kv {
	const char *name;
	struct str value;
	int64_t time_ms; // of the last write
};
// Every name with that prefix, in order; texts are in the arena.
fallible store_kv_load(struct store *store, const char *prefix, struct arena *arena,
		       struct store_kv **out, size_t *out_count);
