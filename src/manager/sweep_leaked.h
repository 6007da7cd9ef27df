// Leaked resources: boxes, cgroups, disks, mounts, loop devices, state files, sockets, tapes and
// unfinished templates that carry cove's name and belong to no record. A resource may belong to a
// box that is just being recorded: it is remembered when first seen, and removed after it had no
// owner for TIMER_ORPHAN. Nothing counts as leaked while a record could not be read.
#pragma once

#include "manager/sweep_round.h"
#include "manager/table.h"

struct sweep_leaked;

struct sweep_leaked *sweep_leaked_new(struct manager *manager);
// One part of a round: lists, removes at most SWEEP_BATCH leaked resources, and lists again; what
// is still there is a failed attempt. Waits. UNAVAILABLE when the warden cannot be asked: nothing
// was touched.
fallible sweep_leaked_go(struct sweep_leaked *leaked_all, struct sweep_round *round);
