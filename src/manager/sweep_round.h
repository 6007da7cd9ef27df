// The counts of one round of the janitor.
#pragma once

#include <stdint.h>

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
