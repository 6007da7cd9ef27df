// The end of boxes: killed, waited for, swept away, and only then answered.
#pragma once

#include "warden/box.h"

// Begins to bury a box, or goes on; idempotent. With cell->keeps its disk stays and the cell with
// it. The answers owed to it come when all is gone.
void teardown_begin(struct warden *warden, struct warden_box *box);
// Lets the loop tell of the end of its pid 1. -1 with errno.
int teardown_watch(struct warden *warden, struct warden_box *box);
bool teardown_has_ended(const struct warden_box *box); // its pid 1, as of now
// The loop saw that end, asked for or not. `tag` is the event's; a box that is gone since is none.
void teardown_heard(struct warden *warden, uint64_t tag);
// Goes on with what is due. Returns the time of the next try, CLOCK_NEVER when there is none.
int64_t teardown_turn(struct warden *warden);
// Ends the processes of all boxes; the disks of those that can be stopped stay.
void teardown_end_all(struct warden *warden);
// The daemon is gone: nobody is owed an answer. What is under way goes on.
void teardown_forget_orders(struct warden *warden);
