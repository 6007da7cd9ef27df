// The janitor: runs when the daemon starts, every TIMER_SWEEP and on demand, one round at a time,
// and removes leftovers. It destroys nothing itself: it calls the owner of each resource, and
// counts what is verified gone.
#pragma once

#include "codec/json.h"
#include "manager/sweep_round.h"
#include "manager/table.h"

struct sweep;

struct sweep *sweep_new(struct manager *manager);
// Adds a part that runs within each round; it may wait, and adds to the counts. At most
// SWEEP_PARTS_MAX. `name` is a literal.
#define SWEEP_PARTS_MAX 8
void sweep_add(struct sweep *sweep, const char *name,
	       struct err *(*part)(void *arg, struct sweep_round *round), void *arg);
void sweep_open(struct sweep *sweep); // starts the first round

// Runs a round now. A call during a round waits for its end and gets its result.
fallible sweep_run(struct sweep *sweep, struct sweep_round *out);
// {last, total, rounds, history: […]}, the newest first.
void sweep_put(struct json_out *out, const struct sweep *sweep);
void sweep_round_put(struct json_out *out, const struct sweep_round *round); // members
