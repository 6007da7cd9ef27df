// What an earlier life of this instance left in the kernel, found by looking and not by memory.
#pragma once

#include "base/err.h"
#include "base/map.h"
#include "warden/group.h"

// Kills every process in the instance's groups but those of boxes in `known`, waits for the end of
// them all and removes the groups. Blocks, at most INVENTORY_MS; UNAVAILABLE stuck_leftover when
// something outlives that.
#define INVENTORY_MS 10000
fallible inventory_destroy(struct groups *groups, const struct map *known, int *out_destroyed);
// The same for the groups of one name. True: they are gone. Does not block: call it again.
bool inventory_destroy_one(struct groups *groups, const char *box);
