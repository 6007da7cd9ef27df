// The steady clock over restarts: what it adds to the time since boot is kept in the store, so that
// a daemon of the same boot goes on by the same time, whatever the host's clock was set to.
#pragma once

#include "manager/sweep_round.h"
#include "store/store.h"

struct steady_clock;

// Sets the steady clock. Before anything that expires is read; blocks, before the loop runs.
// Reads the boot's name: before the process is confined, steady_clock_boot() must have been called.
#define STEADY_CLOCK_BOOT 40
void steady_clock_boot(char out[STEADY_CLOCK_BOOT]); // "": unknown
struct steady_clock *steady_clock_open(struct store *store, const char boot[STEADY_CLOCK_BOOT]);
// Whether the host may have been booted since the state was last settled; true where that is not
// known.
bool steady_clock_rebooted(const struct steady_clock *steady_clock);
// All that the last boot has left is settled: from now on this boot is the known one.
void steady_clock_settled(struct steady_clock *steady_clock);
// A part of every sweep: follows a clock that drifts, and alerts of one that was set.
fallible steady_clock_follow(void *steady_clock, struct sweep_round *round);
