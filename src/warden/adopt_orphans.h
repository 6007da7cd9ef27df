// Resources that carry a box id without a box in the table: cgroups with their processes, a state
// file, a socket, a disk with its mounts and loop devices.
#pragma once

#include "warden/box.h"

// Removes all of them. OK: verified gone. UNAVAILABLE leaked_busy: not yet, ask again. Does not
// block.
fallible adopt_orphans_box(struct warden *warden, const char *box);
