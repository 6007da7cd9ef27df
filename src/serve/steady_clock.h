// The steady clock across restarts: its offset to the time since boot is in the store, so that a
// daemon of the same boot continues it, whatever the host's clock was set to.
#pragma once

#include "manager/sweep.h"
#include "store/store.h"

struct steady_clock;

// Sets the steady clock; call it before anything that expires is read. Blocks, before the loop
// runs. steady_clock_boot() reads the boot id: call it before the process is confined.
#define STEADY_CLOCK_BOOT 40
void steady_clock_boot(char out[STEADY_CLOCK_BOOT]); // "": unknown
struct steady_clock *steady_clock_open(struct store *store, const char boot[STEADY_CLOCK_BOOT]);
// Whether the host may have been booted since the state was last settled; true if unknown.
bool steady_clock_rebooted(const struct steady_clock *steady_clock);
// The state is settled after a boot: this boot is the known one from now on.
void steady_clock_settled(struct steady_clock *steady_clock);
// Part of every sweep: follows a slewed clock, and raises an alert for one that was set.
fallible steady_clock_follow(void *steady_clock, struct sweep_round *round);
