// The end of boxes: killed, waited for, removed, and only then answered.
#pragma once

#include "warden/box.h"

// Begins to destroy a box on BOX_EVENT_REMOVE; idempotent. FAILED, and CLONED of a DOOMED box, end
// a build. With box->keeps the disk and the box stay. Orders are answered when everything is gone.
void teardown_begin(struct warden *warden, struct warden_box *box, enum warden_box_event why);
// Adds its pidfd to the loop. -1 with errno.
int teardown_watch(struct warden *warden, struct warden_box *box);
bool teardown_has_ended(const struct warden_box *box); // its pid 1, as of now
// The loop saw the exit of a pid 1, ordered or not. `tag` is the event's; unknown tags are ignored.
void teardown_pid1_exited(struct warden *warden, uint64_t tag);
// Goes on with teardowns that are due. Returns the time of the next try, CLOCK_NEVER if there is
// none.
int64_t teardown_turn(struct warden *warden);
// Ends all boxes; the disks of those that can be stopped stay.
void teardown_end_all(struct warden *warden);
// The daemon is gone: no answers are owed. Teardowns go on.
void teardown_forget_orders(struct warden *warden);

// Deferred unmount of the overlays of deleted boxes. The unmount of an overlay without `volatile`
// syncs the whole upper file system, with the data of other boxes. A deleted box does not need that
// sync, so a child process unmounts in its own time. Start it before the warden confines itself.
fallible deferred_unmount_start(struct deferred_unmount **out);
// A child ended: true if it was this one.
bool deferred_unmount_reaped(struct deferred_unmount *unmount, int pid);
// Returns when all that it took is let go. NULL: nothing.
void deferred_unmount_stop(struct deferred_unmount *unmount);
