// Answers under idempotency keys: what was answered once is answered again, after a restart too.
#pragma once

#include "base/secret.h"
#include "store/store.h"

struct store_idempotency {
	const char *key; // hex of the hash of tenant and key
	uint8_t hash[SECRET_HASH];
	int status;
	const char *place;
	struct str body;
	int64_t kept_ms; // wall clock
};

void store_idempotency_rows_put(struct store *store,
				const struct store_idempotency *idempotency); // does not wait
// Forgets those kept before, and all but the newest `keep`.
fallible store_idempotency_rows_prune(struct store *store, int64_t since_ms, uint64_t keep);
// Those kept since, oldest first; older ones are forgotten. The words live in the arena.
fallible store_idempotency_rows_load(struct store *store, int64_t since_ms, struct arena *arena,
				     struct store_idempotency **out, size_t *out_count);
