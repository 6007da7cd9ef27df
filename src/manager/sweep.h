// The janitor: runs when the daemon starts, every TIMER_SWEEP and on demand, one round at a time,
// and removes leftovers. It destroys nothing itself: it calls the owner of each resource, and
// counts what is verified gone.
#pragma once

#include "codec/json.h"
#include "manager/table.h"

// The counts of one round.
#define SWEEP_BATCH 50	  // removed in one round, oldest first; the rest is backlog
#define SWEEP_HISTORY 100 // rounds that are kept
#define SWEEP_SLOW_MS 10000

// clang-format off
#define SWEEP_COUNTS(X) \
	X(scanned,            "scanned")            /* records and boxes checked */ \
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

struct sweep *sweep_new(struct manager *manager);
// Adds a part that runs within each round; it may wait, and adds to the counts. At most
// SWEEP_PARTS_MAX. `name` is a literal.
#define SWEEP_PARTS_MAX 12
void sweep_add(struct sweep *sweep, const char *name,
	       struct err *(*part)(void *arg, struct sweep_round *round), void *arg);
void sweep_open(struct sweep *sweep); // starts the first round

// Boxes that never became ready, and boxes whose delete takes too long, until they are gone; the
// time that the last round took, -1: there was none. Does not wait.
struct sweep_view {
	uint64_t orphaned, stuck;
	int64_t duration_ms;
};
struct sweep_view sweep_look(const struct sweep *sweep);

// Runs a round now. A call during a round waits for its end and gets its result.
fallible sweep_run(struct sweep *sweep, struct sweep_round *out);
// {last, total, rounds, history: […]}, the newest first.
void sweep_put(struct json_out *out, const struct sweep *sweep);
void sweep_round_put(struct json_out *out, const struct sweep_round *round); // members
