// Pools: sandboxes of a tenant that are made, started and found ready before a create asks for
// them. A member is a sandbox with a label of the pool; a claim takes the label away in the same
// write that gives the sandbox its name and labels, so that it is claimed once, whatever is killed.
#pragma once

#include "manager/access.h"
#include "types/spec.h"

#define POOLS_OF_TENANT_MAX 64
#define POOL_LABEL ENV_MAP_RESERVED "pool"

struct pool;

// Reads all pools from the store. Blocks: before the loop runs.
void pools_load(struct manager *manager);
// Begins to fill them, once all sandboxes are known.
void pools_open(struct manager *manager);
void pools_free(struct manager *manager);

// Durable on return; *out is borrowed until the next wait. INVALID; NOT_FOUND no_template;
// EXHAUSTED quota.
fallible pools_set(struct manager *manager, const struct who *who, struct str name, struct str body,
		   const struct pool **out, bool *out_made);
fallible pools_get(struct manager *manager, const struct who *who, struct str name,
		   const struct pool **out); // NOT_FOUND no_pool
// Of the caller's tenant, in no order: *at is 0 at first; NULL: no more.
const struct pool *pools_next(const struct manager *manager, const struct who *who, size_t *at);
// Durable on return. Its members that are not claimed go.
fallible pools_delete(struct manager *manager, const struct who *who, struct str name);
bool pools_are_of(const struct manager *manager, const char *tenant);
// {name, template, size, …, ready, preparing, hits, misses, claimMs, refillMs, error}
void pools_put(struct json_out *out, const struct manager *manager, const struct pool *pool);
struct pools_sums {
	uint64_t ready, hits, misses;
};
struct pools_sums pools_sum(const struct manager *manager, const struct who *who);

// A sandbox of the pool: a ready member, else a new one that is ready. `change`: {labels, ttl,
// network} of the request, or an empty object. `name`, `idempotency`: "": none. The record is
// borrowed until the next wait. NOT_FOUND no_pool; CONFLICT name_taken; TIMEOUT not_ready, and the
// errors of create_box() and change_box().
struct pool_claim {
	struct str pool;
	const char *name, *idempotency;
	const char *id; // of a new one
	const struct json *change;
};
fallible pools_claim(struct manager *manager, const struct create_grant *grant,
		     const struct pool_claim *claim, const struct record **out,
		     bool *out_from_pool);
