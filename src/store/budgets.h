// Budgets: each with its JSON, and the period in which it was announced as nearly or wholly used.
#pragma once

#include "store/store.h"

struct store_budget {
	const char *name, *body;
	int64_t created_ms;
	int64_t warned_ms, exceeded_ms; // the begin of that period; 0: never
};

// Durable on return.
fallible store_budgets_put(struct store *store, const struct store_budget *budget);
fallible store_budgets_drop(struct store *store, const char *name);
// Queued: what was announced. Nothing happens if the budget is gone.
void store_budgets_announced(struct store *store, const char *name, int64_t warned_ms,
			     int64_t exceeded_ms);
// All, by name; texts are in the arena.
fallible store_budgets_load(struct store *store, struct arena *arena, struct store_budget **out,
			    size_t *out_count);
