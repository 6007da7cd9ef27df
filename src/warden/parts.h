// What a box is put together from: its ground, which is the same for all, and its goods, which are
// what the order names.
#pragma once

#include "warden/cell.h"

// Both, for a box that nothing was laid ahead for; its goods wait for pid 1 in its socket. An error
// that comes when the clone is on its way is cell->late.
fallible parts_all(struct warden *warden, const struct order *order, struct cell *cell);
// The ground of a berth, with the limits of the last box.
fallible parts_ground(struct warden *warden, struct cell *cell);
// The goods of a berth, unless cell->late tells that it has failed before; it tells of these, too.
void parts_goods(struct warden *warden, const struct order *order, struct cell *cell);
// EXHAUSTED berth_lost: what was laid ahead has ended, and is being cleared away. The daemon tries
// again.
fallible parts_lost(void);
