// What a box is put together from: its ground, which is the same for all, and its goods, which are
// what the order names.
#pragma once

#include "warden/box.h"

// Both, for a box that nothing was laid ahead for; its goods wait for pid 1 in its socket. An error
// that comes when the clone is on its way is cell->late.
fallible build_inputs_all(struct warden *warden, const struct order *order, struct warden_box *box);
// The ground of a berth, with the limits of the last box.
fallible build_inputs_base_rootfs(struct warden *warden, struct warden_box *box);
// The goods of a berth, unless cell->late tells that it has failed before; it tells of these, too.
void build_inputs_mounts(struct warden *warden, const struct order *order, struct warden_box *box);
// EXHAUSTED prebuilt_lost: what was laid ahead has ended, and is being cleared away. The daemon
// tries again.
fallible build_inputs_lost(void);
