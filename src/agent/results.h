// Results of executions: the log and the artifacts of each attempt, kept when the sandbox is gone.
// Contents are blobs (agent/blobs.h), rows of the store say which attempt has which.
//
// An attempt is collected once, after its command ended and before its sandbox is destroyed. Its
// rows are committed by the caller, in the transaction that ends the attempt. After a kill before
// that commit it is collected again; blobs that no row names are removed at the next start.
#pragma once

#include "agent/artifacts.h"
#include "agent/blobs.h"
#include "box/box.h"
#include "codec/mask.h"
#include "store/results.h"
#include "types/policy.h"

struct results;

#define RESULTS_MAX_MB 200 // of artifacts, unless the request or the profile says otherwise
#define RESULTS_DEADLINE_MS 300000
#define RESULTS_LAST 2048 // bytes of output that are told beside an end

struct results_options {
	struct loop *loop;
	struct store *store;
	int dir; // "blobs"; borrowed
	// The account for a tenant's output on disk, borrowed; NULL: not counted.
	struct tape_quota *(*output_of)(void *arg, const char *tenant);
	void *output_arg;
	uint64_t max; // bytes of all results; past it the oldest are removed; 0: no cap
};

fallible results_open(const struct results_options *options, struct results **out);
// Removes blobs without a row, in the background.
void results_start(struct results *results);
void results_stop(struct results *results); // returns when its tasks have ended
void results_free(struct results *results);
void results_configure(struct results *results, uint64_t max);

struct results_attempt {
	const char *tenant, *execution; // tenant "": the operator's
	uint32_t number;		// from 1
};

struct results_spec {
	const char *const *globs; // of artifacts, NULL-ended; NULL: none (agent/artifacts.h)
	const char *user, *base;  // whose rights; absolute directory of relative globs
	uint64_t max_bytes;	  // of artifacts
	int64_t deadline;	  // loop time; 0: RESULTS_DEADLINE_MS from now
};

// Values of these secrets are masked in the log of the attempt, beside those of earlier calls: for
// its readers from now on, and when it is collected. Idempotent. Call it when the command starts,
// and before results_collect(). `policy` may be NULL.
void results_hide(struct results *results, const struct results_attempt *attempt,
		  const struct policy *policy);
// The mask of a log that is not collected yet; NULL: none. The caller's.
struct mask *results_mask(struct results *results, const struct results_attempt *attempt);

struct results_found {
	struct store_result result; // its texts are in the arena
	struct artifacts artifacts; // likewise
	struct str last;	    // output, masked: of stderr, else of stdout; in the arena
};
// Stores the contents of the log, then of the artifacts; they are held until results_settle().
// `box` NULL or not running: no artifacts, every glob is in `missing`, and the result is partial.
// `log`: the tape of the attempt's command, ended; NULL: there is none. Artifacts that cannot be
// read make the result partial, they are no error. Waits. UNAVAILABLE state_unwritable, NO_SPACE
// no_space, CANCELLED: nothing is held, call again.
fallible results_collect(struct results *results, const struct results_attempt *attempt,
			 struct box *box, struct tape *log, const struct results_spec *spec,
			 struct arena *arena, struct results_found *out);
struct store_result_rows results_rows(const struct results_found *found);
// `is_kept`: the rows are durable. Else contents that no row names are removed.
void results_settle(struct results *results, const struct results_attempt *attempt,
		    const struct results_found *found, bool is_kept);
// The collected results. NOT_FOUND no_result.
fallible results_get(struct results *results, const struct results_attempt *attempt,
		     struct arena *arena, struct store_result *out);
// Removes everything of an execution, durable on return; blobs are removed after it. Idempotent.
fallible results_drop(struct results *results, const char *tenant, const char *execution);

// The stored log, masked. results_close_log() it. NOT_FOUND no_log; GONE results_removed: for the
// cap of all results.
fallible results_open_log(struct results *results, const struct store_result *result,
			  struct tape **out);
void results_close_log(struct results *results, const struct store_result *result,
		       struct tape *log);
struct store *results_store(const struct results *results);
struct blobs *results_blobs(const struct results *results);
