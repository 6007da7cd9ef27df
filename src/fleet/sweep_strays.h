// What has cove's name and is nobody's: cells, control groups, disks, mounts, loop devices, notes,
// sockets, tapes, templates half made. Whatever is found may belong to somebody who is just being
// written down, so it is remembered when it is first seen, and ended when it has been there, and
// nobody's, for TIMER_ORPHAN.
//
// Nothing is nobody's while a record could not be read.
#pragma once

#include "fleet/sweep_round.h"
#include "fleet/table.h"

struct sweep_strays;

struct sweep_strays *sweep_strays_new(struct fleet *fleet);
// A part of a round: looks, ends at most SWEEP_BATCH of what is ripe, and looks again; what is
// still there then is a failed attempt. Waits. UNAVAILABLE when the warden cannot be asked: then
// nothing is known, and nothing was touched.
fallible sweep_strays_go(struct sweep_strays *strays, struct sweep_round *round);
