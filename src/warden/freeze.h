// Frozen boxes: PAUSE freezes a box with all its processes, pid 1 included, and THAW lets it run
// again. The kernel's state is the only record of whether a box is frozen.
#pragma once

#include "warden/box.h"

// A PAUSE is answered when all processes are frozen. TIMEOUT not_frozen if they do not freeze in
// time; the box then runs on.
fallible warden_freeze_begin(struct warden *warden, const struct order *order);
fallible warden_freeze_end(struct warden *warden, const struct order *order);
// Goes on with pauses that are due. Returns the time of the next check, CLOCK_NEVER if there is
// none.
int64_t warden_freeze_turn(struct warden *warden, int64_t now);
// The daemon is gone: no answers are owed. Boxes that are being frozen freeze all the same.
void warden_freeze_forget(struct warden *warden);
