// Agent sessions, opened with the operator's settings.
#pragma once

#include "gateway/gateway.h"
#include "serve/config.h"
#include "store/store.h"

struct serve_agents;

// Sets gateway->agents; NULL when the stored state cannot be read. Blocks: call it before the loop
// runs.
fallible serve_agents_open(const struct config *config, struct gateway *gateway,
			   struct store *store, int daemon_dir, struct serve_agents **out);
// INVALID bad_config: a size class is malformed.
fallible serve_agents_check(const struct config *config);
// Applies checked settings, for sandboxes and sessions created from now on. Takes NULL.
void serve_agents_load_config(struct serve_agents *room, const struct config *config,
			      struct manager *manager);
// The existing boxes are known: leases may be reconciled with them.
void serve_agents_start(struct serve_agents *room);
// Stops every runner, by its lease.
void serve_agents_drain(struct serve_agents *room, int64_t deadline);
