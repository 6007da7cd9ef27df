// Responses under idempotency keys: repeated for the same key, also after a restart.
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
// Removes rows stored before, and all but the newest `keep`.
fallible store_idempotency_rows_prune(struct store *store, int64_t since_ms, uint64_t keep);
// Rows stored since, oldest first; older ones are removed. Texts are in the arena.
fallible store_idempotency_rows_load(struct store *store, int64_t since_ms, struct arena *arena,
				     struct store_idempotency **out, size_t *out_count);
