// Usage: sums by tenant, sandbox, kind and hour.
#pragma once

#include "store/store.h"

// Adds to the hour of `time_ms`. Does not wait.
void store_usage_add(struct store *store, const char *tenant, const char *sandbox, const char *what,
		     int64_t time_ms, uint64_t amount);
// The sum over [from_ms, to_ms), whole hours; NULL: of any tenant, of any sandbox.
fallible store_usage_sum(struct store *store, const char *tenant, const char *sandbox,
			 const char *what, int64_t from_ms, int64_t to_ms, uint64_t *out);
fallible store_usage_prune(struct store *store, int64_t before_ms);
