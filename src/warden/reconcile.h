// Boxes as told to the daemon: the table by pages, and the table compared with the kernel and the
// disk.
#pragma once

#include "warden/box.h"

fallible warden_reconcile_boxes(struct warden *warden, const struct order *order);
fallible warden_reconcile_inventory(struct warden *warden, const struct order *order);
