// Usage by hour and by what is charged; and the last reading of each sandbox, written in the same
// transaction, from which the next difference is taken.
#pragma once

#include "store/store.h"
#include "types/usage.h"

// What the use of a sandbox is charged to. "": none. `labels` is a JSON object of texts.
struct store_charge {
	const char *sandbox, *tenant, *name, *type, *owner, *execution, *session, *labels;
};

// The last reading of a sandbox.
struct store_meter {
	const char *sandbox;
	uint64_t epoch, cgroup, cpu_us;
	const char *boot; // in which the cgroup has that identity
	uint64_t connections, requests, bytes_in, bytes_out, denied;
	int64_t disk;	 // bytes; -1: unknown
	uint64_t memory; // working set
	int64_t time_ms;
};

// Adds to the hour and replaces the reading. Does not wait; copies the texts.
void store_usage_queue(struct store *store, const struct store_charge *charge, int64_t time_ms,
		       const struct usage *usage, const struct store_meter *meter);
// *out_found: there is a reading. Texts are in the arena.
fallible store_usage_meter(struct store *store, const char *sandbox, struct arena *arena,
			   struct store_meter *out, bool *out_found);
// Readings of sandboxes without a record, and hours before that time. Runs in steps.
fallible store_usage_prune(struct store *store, int64_t before_ms);

// clang-format off
#define USAGE_BY(X) \
	X(TENANT, "tenant") X(SANDBOX, "sandbox") X(TYPE, "type") X(OWNER, "owner") \
	X(EXECUTION, "execution") X(AGENT_SESSION, "agentSession") X(LABEL, "label") X(DAY, "day")
// clang-format on
enum usage_by {
#define X(name, word) USAGE_BY_##name,
	USAGE_BY(X)
#undef X
		USAGE_BYS
};

// Hours in [from_ms, to_ms), whole ones. NULL: any.
struct usage_query {
	enum usage_by by;
	const char *label; // of USAGE_BY_LABEL: its key
	int64_t from_ms, to_ms;
	const char *tenant, *sandbox, *session;
	const char *label_key, *label_value; // only what has this label

	const char *after; // only keys behind this one
	size_t max;	   // items
};
struct store_usage_item {
	const char *key; // "": none
	struct usage used;
	uint64_t sandboxes, executions;
};
struct store_usage_page {
	struct store_usage_item *at; // by key, the one without a key first
	size_t count;
};
// For long periods: on the connection for long reads. Texts are in the arena.
fallible store_usage_items(struct store *store, const struct usage_query *query,
			   struct arena *arena, struct store_usage_page *out);
// The sum of all items, whatever `by`, `after` and `max` are.
fallible store_usage_total(struct store *store, const struct usage_query *query,
			   struct store_usage_item *out);
