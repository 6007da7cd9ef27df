// The table of a warden that has just started, from what an earlier one left: state files in
// RUN/cells, cgroups, processes, disks. A state file is trusted as far as the kernel agrees.
#pragma once

#include "base/auto.h"
#include "warden/box.h"

struct recover;

// Enters living boxes into the table. All other cgroups must then be destroyed, by cgroup and never
// by pid; *out lists the disks that go with them. INVALID state_too_new if a newer cove wrote the
// state files.
fallible recover_boxes(struct warden *warden, struct recover **out);
// Call when those are destroyed and the disks are open. Disks without a process become boxes that
// are nothing but a disk. Disks of ephemeral boxes, and of boxes promised to no client, are
// removed.
fallible recover_disks(struct warden *warden, struct recover *recover);
void recover_drop(struct recover **held);
#define auto_recover on_exit_call(recover_drop) struct recover *
// Removes all resources that carry a box id without a box in the table: cgroups with their
// processes, a socket, a state file, a disk with its mounts and loop devices. OK: verified gone.
// UNAVAILABLE leaked_busy: not yet, ask again. Does not block.
fallible recover_remove_orphan(struct warden *warden, const char *box_id);
