// The end of boxes: killed, waited for, swept away, and only then answered.
#pragma once

#include "warden/cell.h"

// Begins to bury a box, or goes on; idempotent. The answers owed to it come when all is gone.
void bury_begin(struct warden *warden, struct cell *cell);
// Its pid 1 has ended, asked or not.
void bury_saw_end(struct warden *warden, struct cell *cell);
// Goes on with what is due. Returns the time of the next try, CLOCK_NEVER when there is none.
int64_t bury_turn(struct warden *warden);
void bury_all(struct warden *warden);
