// Leaked resources beside the table: processes that were moved into a box's cgroups from outside,
// loop devices, id ranges.
#pragma once

#include "warden/box.h"

typedef void leaked_fn(struct answer *answer, const char *what, const char *name);

void leaked_find(struct warden *warden, leaked_fn *odd);
