// Boxes that stand still: PAUSE freezes a box with all its processes, pid 1 among them, and THAW
// lets it run again. The kernel is the record: who asks whether a box is frozen asks the kernel.
#pragma once

#include "warden/box.h"

// Orders. A PAUSE is answered once nothing in the box runs; TIMEOUT not_frozen when that does not
// come about, and then it runs on.
fallible warden_freeze_begin(struct warden *warden, const struct order *order);
fallible warden_freeze_end(struct warden *warden, const struct order *order);
// Goes on with what is due. Returns the time of the next look, CLOCK_NEVER when there is none.
int64_t warden_freeze_turn(struct warden *warden, int64_t now);
// The daemon is gone: nobody is owed an answer. What was ordered still stands.
void warden_freeze_forget(struct warden *warden);
