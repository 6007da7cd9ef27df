// The table of a warden that has only begun, from what an earlier life left: notes in RUN/cells,
// cgroups, processes, disks. A note counts as far as the kernel agrees with it.
#pragma once

#include "base/auto.h"
#include "warden/box.h"

struct recover;

// Boxes that live become cells again. What runs and is no cell's then is to be buried, by its group
// and never by a number; *out remembers what else goes with it. INVALID state_too_new when a newer
// cove has written the notes.
fallible recover_boxes(struct warden *warden, struct recover **out);
// Once that is buried and the disks are open: disks without a process become cells that are nothing
// but a disk; those of boxes that were promised to nobody, or end with their run, go.
fallible recover_disks(struct warden *warden, struct recover *recover);
void recover_drop(struct recover **held);
#define auto_recover on_exit_call(recover_drop) struct recover *
