// The last reference to the file systems of boxes that are gone. An overlay that may be mounted
// again writes out all of its disk's file system when it ends, that of other boxes too: for a box
// that was deleted that is for nothing, and a child of ours does it in its own time.
#pragma once

#include "base/err.h"

struct deferred_unmount;

// Forks it. Call it before the warden confines itself.
fallible deferred_unmount_start(struct deferred_unmount **out);
// Takes over a mount. Never waits, unless the child is gone or far behind.
void deferred_unmount_take(struct deferred_unmount *unmount, int mount);
// A child ended: true when it was this one.
bool deferred_unmount_reaped(struct deferred_unmount *unmount, int pid);
void deferred_unmount_stop(
	struct deferred_unmount *unmount); // returns when all that it took is let go; NULL: nothing
