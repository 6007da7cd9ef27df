// What is there under a box's name and is no cell's: groups with whatever runs in them, a note, a
// socket, a disk with what is mounted on it or bound to it.
#pragma once

#include "warden/box.h"

// Ends all of it; OK when it is verified gone. UNAVAILABLE leaked_busy: not yet, ask again. Does
// not block.
fallible adopt_orphans_box(struct warden *warden, const char *box);
