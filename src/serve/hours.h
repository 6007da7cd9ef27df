// The steady clock over restarts: what it adds to the time since boot is kept in the store, so that
// a daemon of the same boot goes on by the same time, whatever the host's clock was set to.
#pragma once

#include "fleet/sweep_round.h"
#include "store/store.h"

struct hours;

// Sets the steady clock. Before anything that expires is read; blocks, before the loop runs.
// Reads the boot's name: before the process is confined, hours_boot() must have been called.
#define HOURS_BOOT 40
void hours_boot(char out[HOURS_BOOT]); // "": unknown
struct hours *hours_open(struct store *store, const char boot[HOURS_BOOT]);
// Whether the host may have been booted since the state was last settled; true where that is not
// known.
bool hours_rebooted(const struct hours *hours);
// All that the last boot has left is settled: from now on this boot is the known one.
void hours_settled(struct hours *hours);
// A part of every sweep: follows a clock that drifts, and alerts of one that was set.
fallible hours_follow(void *hours, struct sweep_round *round);
