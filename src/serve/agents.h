// The room of conversations, opened with what the operator decided.
#pragma once

#include "gateway/gateway.h"
#include "serve/config.h"
#include "store/store.h"

struct serve_agents;

// Sets gateway->agents; NULL when what is stored cannot be read. Blocks: before the loop runs.
fallible serve_agents_open(const struct config *config, struct gateway *gateway,
			   struct store *store, int daemon_dir, struct serve_agents **out);
// INVALID bad_config: what a size class says is malformed.
fallible serve_agents_check(const struct config *config);
// Other settings, that were checked: for what is made from now on. Takes NULL.
void serve_agents_load_config(struct serve_agents *room, const struct config *config,
			      struct manager *manager);
// What boxes there are is known: leases may be held against them.
void serve_agents_start(struct serve_agents *room);
// Every runner is stopped, by its lease.
void serve_agents_drain(struct serve_agents *room, int64_t deadline);
