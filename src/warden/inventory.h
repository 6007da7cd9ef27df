// Cgroups that an earlier warden of this instance left, found in the kernel and not from records.
#pragma once

#include "base/err.h"
#include "base/map.h"
#include "warden/group.h"

// Kills every process in the instance's cgroups, except those of boxes in `known`, waits for all to
// exit and removes the cgroups. Blocks, at most INVENTORY_MS; then UNAVAILABLE stuck_leftover.
#define INVENTORY_MS 10000
fallible inventory_destroy(struct groups *groups, const struct map *known, int *out_destroyed);
// The same for one box id. True: gone. Does not block: call it again.
bool inventory_destroy_one(struct groups *groups, const char *box);
