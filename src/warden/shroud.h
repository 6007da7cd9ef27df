// The last reference to the file systems of boxes that are gone. An overlay that may be mounted
// again writes out all of its disk's file system when it ends, that of other boxes too: for a box
// that was deleted that is for nothing, and a child of ours does it in its own time.
#pragma once

#include "base/err.h"

struct shroud;

// Forks it. Call it before the warden confines itself.
fallible shroud_start(struct shroud **out);
// Takes over a mount. Never waits, unless the child is gone or far behind.
void shroud_take(struct shroud *shroud, int mount);
// A child ended: true when it was this one.
bool shroud_reaped(struct shroud *shroud, int pid);
void shroud_stop(struct shroud *shroud); // returns when all that it took is let go; NULL: nothing
