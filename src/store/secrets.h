// Named secrets of tenants: settings and the encrypted value as JSON, and the last use.
#pragma once

#include "store/store.h"

struct store_secret {
	const char *tenant, *name; // tenant "": the operator's
	const char *body;
	int64_t created_ms, rotated_ms; // wall clock
	int64_t used_ms;		// 0: never
	const char *used_host;
};

// Durable on return. The last use of an existing row is kept.
fallible store_secrets_put(struct store *store, const struct store_secret *secret);
fallible store_secrets_drop(struct store *store, const char *tenant, const char *name);
// Queued: the time and host of the last use. Nothing happens if the secret is gone.
void store_secrets_queue_use(struct store *store, const char *tenant, const char *name,
			     int64_t used_ms, const char *host);
// All secrets of all tenants, by tenant and name; texts are in the arena.
fallible store_secrets_load(struct store *store, struct arena *arena, struct store_secret **out,
			    size_t *out_count);
