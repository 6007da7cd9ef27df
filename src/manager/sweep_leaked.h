// What has cove's name and is nobody's: cells, control groups, disks, mounts, loop devices, notes,
// sockets, tapes, templates half made. Whatever is found may belong to somebody who is just being
// written down, so it is remembered when it is first seen, and ended when it has been there, and
// nobody's, for TIMER_ORPHAN.
//
// Nothing is nobody's while a record could not be read.
#pragma once

#include "manager/sweep_round.h"
#include "manager/table.h"

struct sweep_leaked;

struct sweep_leaked *sweep_leaked_new(struct manager *manager);
// A part of a round: looks, ends at most SWEEP_BATCH of what is ripe, and looks again; what is
// still there then is a failed attempt. Waits. UNAVAILABLE when the warden cannot be asked: then
// nothing is known, and nothing was touched.
fallible sweep_leaked_go(struct sweep_leaked *leaked_all, struct sweep_round *round);
