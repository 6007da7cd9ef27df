// Volumes of tenants, before the warden makes their files and until it has removed them.
#pragma once

#include "store/store.h"

struct store_volume {
	const char *id, *tenant, *name; // tenant "": the operator's
	const char *state;
	int64_t size, created_ms;
};

// Durable on return.
fallible store_volumes_put(struct store *store, const struct store_volume *volume);
fallible store_volumes_drop(struct store *store, const char *id);
// All of all tenants; texts are in the arena.
fallible store_volumes_load(struct store *store, struct arena *arena, struct store_volume **out,
			    size_t *out_count);
