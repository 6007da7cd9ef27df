// Ends of executions (types/execution_end.h) and their totals. A total only grows: it is what
// Prometheus reads, and what a client's own count must equal, also after a daemon was killed.
#pragma once

#include "store/store.h"
#include "types/execution_end.h"

// In the deed that commits the outcome. An id that was counted before is not counted again.
fallible store_execution_ends_add_in(struct db *db, const struct execution_end *end);

// Those that ended at or after that time, oldest first; texts are cut to their fields.
fallible store_execution_ends_load(struct store *store, int64_t since_ms, struct arena *arena,
				   struct execution_end **out, size_t *out_count);
struct execution_total {
	const char *type, *outcome;
	int64_t kind; // EXECUTION_…
	int64_t total;
};
enum { EXECUTION_FAILED, EXECUTION_INFRASTRUCTURE, EXECUTION_COMPLETED, EXECUTION_UNCOUNTED };
int64_t execution_kind(const struct execution_end *end);
fallible store_execution_totals_load(struct store *store, struct arena *arena,
				     struct execution_total **out, size_t *out_count);
// Removes ends before that time, not totals.
fallible store_execution_ends_prune(struct store *store, int64_t before_ms);
