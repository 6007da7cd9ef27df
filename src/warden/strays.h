// What stands beside the table, seen by looking deeper than names: processes that came into a box's
// groups from outside, loop devices, id ranges.
#pragma once

#include "warden/cell.h"

typedef void strays_fn(struct answer *answer, const char *what, const char *name);

void strays_find(struct warden *warden, strays_fn *odd);
