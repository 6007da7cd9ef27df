// The room of conversations, opened with what the operator decided.
#pragma once

#include "door/door.h"
#include "serve/config.h"
#include "store/store.h"

struct serve_convs;

// Sets door->convs; NULL when what is stored cannot be read. Blocks: before the loop runs.
fallible serve_convs_open(const struct config *config, struct door *door, struct store *store,
			  int daemon_dir, struct serve_convs **out);
// INVALID bad_config: what a size class says is malformed.
fallible serve_convs_check(const struct config *config);
// Other settings, that were checked: for what is made from now on. Takes NULL.
void serve_convs_heed(struct serve_convs *room, const struct config *config, struct fleet *fleet);
// What boxes there are is known: leases may be held against them.
void serve_convs_start(struct serve_convs *room);
// Every runner is stopped, by its lease.
void serve_convs_drain(struct serve_convs *room, int64_t deadline);
