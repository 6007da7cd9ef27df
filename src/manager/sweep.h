// The janitor: goes round when the daemon starts, every TIMER_SWEEP and on demand, never twice at a
// time, and ends what should not be there any more. It ends nothing by itself: it asks those whose
// business that is, and counts what is verified gone.
#pragma once

#include "codec/json.h"
#include "manager/sweep_round.h"
#include "manager/table.h"

struct sweep;

struct sweep *sweep_new(struct manager *manager);
// Whatever else is to be swept: called within each round, may wait, and adds to the counts. At most
// SWEEP_PARTS_MAX. `name` is a literal.
#define SWEEP_PARTS_MAX 8
void sweep_add(struct sweep *sweep, const char *name,
	       struct err *(*part)(void *arg, struct sweep_round *round), void *arg);
void sweep_open(struct sweep *sweep); // the first round begins

// Goes round now; whoever comes during a round waits for the end of that one and has its result.
fallible sweep_run(struct sweep *sweep, struct sweep_round *out);
// {last, total, rounds, history: […]}, the newest first.
void sweep_put(struct json_out *out, const struct sweep *sweep);
void sweep_round_put(struct json_out *out, const struct sweep_round *round); // members
