// The end of a box: asked for, or suffered.
#pragma once

#include "fleet/table.h"
#include "model/who.h"

#define LIFE_DELETE_MS 30000

// Ends a box. With `wait` it returns once processes, cgroups, mounts and namespaces are verified
// gone; without, as soon as the end is under way. Any number may ask at once: all wait for the same
// end. NOT_FOUND no_sandbox. TIMEOUT stuck after LIFE_DELETE_MS: it is tried again all the same.
fallible life_delete(struct fleet *fleet, const struct who *who, struct str key, bool wait);

// What box_on_loss() calls, with the entry: the box is failed, is buried, and stays visible until
// it is deleted.
void life_lost(struct box *box, void *arg);

// Ends all of them and lets no new one in. Waits until none is left, or TIMEOUT.
fallible life_drain(struct fleet *fleet, int64_t deadline);

// The same words for every id that names nothing.
fallible life_absent(void);
