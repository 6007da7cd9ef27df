// Credentials of tenants at registries: who, and the encrypted secret, as JSON.
#pragma once

#include "store/store.h"

struct store_registry {
	const char *tenant, *host; // tenant "": the operator's
	const char *body;
	int64_t created_ms;
};

// Durable on return.
fallible store_registries_put(struct store *store, const struct store_registry *registry);
fallible store_registries_drop(struct store *store, const char *tenant, const char *host);
// All of all tenants; texts are in the arena.
fallible store_registries_load(struct store *store, struct arena *arena,
			       struct store_registry **out, size_t *out_count);
