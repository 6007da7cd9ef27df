// What there is of boxes, told to the daemon: the table by pages, and the whole compared with what
// the kernel and the disk show.
#pragma once

#include "warden/cell.h"

fallible tally_cells(struct warden *warden, const struct order *order);
fallible tally_census(struct warden *warden, const struct order *order);
