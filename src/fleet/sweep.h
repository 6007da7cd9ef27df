// The janitor: goes round when the daemon starts, every TIMER_SWEEP and on demand, never twice at a
// time, and ends what should not be there any more. It ends nothing by itself: it asks those whose
// business that is, and counts what is verified gone.
#pragma once

#include "fleet/table.h"
#include "wire/json.h"

#define SWEEP_BATCH 50	  // ended in one round, oldest first; the rest is backlog
#define SWEEP_HISTORY 100 // rounds that are remembered
#define SWEEP_SLOW_MS 10000

// clang-format off
#define SWEEP_COUNTS(X) \
	X(scanned,            "scanned")            /* records and cells looked at */ \
	X(orphans_found,      "orphansFound")       /* never became ready, or nobody's */ \
	X(orphans_terminated, "orphansTerminated") \
	X(stuck_terminated,   "stuckTerminated") \
	X(old_deleted,        "oldDeleted")         /* failed long ago, expired */ \
	X(failed_attempts,    "failedAttempts")     /* tried again in the next round */ \
	X(backlog,            "backlog")            /* left for the next round */
// clang-format on
struct sweep_round {
#define X(field, word) uint64_t field;
	SWEEP_COUNTS(X)
#undef X
	int64_t started_ms; // wall clock
	int64_t duration_ms;
};

struct sweep;

struct sweep *sweep_new(struct fleet *fleet);
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
