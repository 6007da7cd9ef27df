// Small things under a name: alerts, slots that failed over, settings that were learned. The first
// part of a name, up to a slash, is its owner: "alert/…", "route/…".
#pragma once

#include "store/store.h"

fallible store_kv_put(struct store *store, const char *name, struct str value);
fallible store_kv_drop(struct store *store, const char *name);
void store_kv_tell(struct store *store, const char *name, struct str value); // at NULL: drop it
fallible store_kv_put_in(struct db *db, const char *name, struct str value);
fallible store_kv_drop_in(struct db *db, const char *name);

struct store_kv {
	const char *name;
	struct str value;
	int64_t time_ms; // of the last write
};
// Every name that begins so, in order; the words live in the arena.
fallible store_kv_load(struct store *store, const char *prefix, struct arena *arena,
		       struct store_kv **out, size_t *out_count);
