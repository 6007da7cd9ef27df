// What stands beside the table, seen by looking deeper than names: processes that came into a box's
// groups from outside, loop devices, id ranges.
#pragma once

#include "warden/box.h"

typedef void leaked_fn(struct answer *answer, const char *what, const char *name);

void leaked_find(struct warden *warden, leaked_fn *odd);
