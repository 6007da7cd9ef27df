// The room of conversations, opened with what the operator decided.
#pragma once

#include "door/door.h"
#include "serve/config.h"
#include "store/store.h"

struct serve_convs;

// Sets door->convs; NULL when what is stored cannot be read. Blocks: before the loop runs.
fallible serve_convs_open(const struct config *config, struct door *door, struct store *store,
			  int daemon_dir, struct serve_convs **out);
// What boxes there are is known: leases may be held against them.
void serve_convs_start(struct serve_convs *convs);
// Every runner is stopped, by its lease.
void serve_convs_drain(struct serve_convs *convs, int64_t deadline);
