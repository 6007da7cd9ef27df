// Deferred unmount of the overlays of deleted boxes. The unmount of an overlay without `volatile`
// syncs the whole upper file system, with the data of other boxes. A deleted box does not need that
// sync, so a child process unmounts in its own time.
#pragma once

#include "base/err.h"

struct deferred_unmount;

// Forks the child. Call before the warden confines itself.
fallible deferred_unmount_start(struct deferred_unmount **out);
// Takes over a mount. Does not wait, unless the child is gone or its queue is full.
void deferred_unmount_take(struct deferred_unmount *unmount, int mount);
// A child ended: true if it was this one.
bool deferred_unmount_reaped(struct deferred_unmount *unmount, int pid);
void deferred_unmount_stop(
	struct deferred_unmount *unmount); // returns when all that it took is let go; NULL: nothing
