// What there is of boxes, told to the daemon: the table by pages, and the whole compared with what
// the kernel and the disk show.
#pragma once

#include "warden/box.h"

fallible warden_reconcile_boxes(struct warden *warden, const struct order *order);
fallible warden_reconcile_inventory(struct warden *warden, const struct order *order);
