// Conversations: long-lived owners of work, each with at most one supervised runner in a sandbox of
// its owner's. What every door sees of them. `who` is asked about in each verb; what somebody may
// not see is not there.
#pragma once

#include "conv/seam.h"
#include "fleet/fleet.h"
#include "fleet/sweep_round.h"
#include "model/lease.h"
#include "model/owner.h"
#include "model/pairs.h"
#include "model/who.h"
#include "store/store.h"

#define CONV_ALIASES_MAX 16
#define CONV_ARGS_MAX 256
#define CONV_QUEUE_MAX 64	       // runs that wait in one conversation
#define CONV_INPUT_MAX (1 << 20)       // bytes of a run's input, and of its result
#define CONV_INPUT_SHARE (64ull << 20) // bytes of input that a tenant's runs wait with
#define CONV_ID_MAX OWNER_PART_MAX

struct convs;
struct conv;

struct convs_options {
	struct loop *loop;
	struct store *store;
	const struct seam *seam; // borrowed
	int dir;		 // of the logs of runs; borrowed
	// What a tenant's output on disk is counted in, borrowed; NULL: nowhere.
	struct tape_quota *(*output_of)(void *arg, const char *tenant);
	void *output_arg;
	const char *isolate;  // organisations whose sessions live alone; "*": everyone's
	const char *tag;      // of shared ids; "": none
	uint64_t threshold;   // bytes that a cold start needs; 0: the default
	uint64_t input_share; // bytes of input that wait for one tenant; 0: the default
	uint64_t class_max[OWNER_CLASSES]; // live sandboxes of each; 0: no bound
};

// Loads what is stored. Nothing is launched before convs_start().
fallible convs_open(const struct convs_options *options, struct convs **out);
// Reconciles every lease with what lives, then serves. Until then runs are queued only.
void convs_start(struct convs *convs);
// Lets runners live and stops talking to them; returns when every task of this room has ended.
void convs_stop(struct convs *convs);
void convs_free(struct convs *convs); // after that
// A reload of isolate, tag, threshold, input_share and class_max: for sessions that are made from
// now on.
void convs_configure(struct convs *convs, const struct convs_options *options);
// Stops every runner; returns when none is left, or TIMEOUT.
fallible convs_drain(struct convs *convs, int64_t deadline);

// Why the last cold start was refused: for the answer, before the next wait.
struct conv_refusal {
	uint64_t available, threshold; // bytes
	uint32_t cleaned, skipped;
};
struct conv_refusal convs_refusal(const struct convs *convs);

// What somebody wants. Borrowed.
struct conv_spec {
	struct owner owner; // session.at == NULL: one is made
	bool isolated;	    // asked for; it can only be strengthened
	struct str aliases[CONV_ALIASES_MAX];
	size_t alias_count;
	const char **argv; // of the runner; NULL-ended
	const struct pairs *env;
};
// A new one, or the one of that alias: *out_made tells. Durable before anything is provisioned.
// INVALID invalid_owner; CONFLICT session_taken, alias_taken; NO_SPACE capacity_rejected;
// UNAVAILABLE capacity_unknown, state_unwritable. Borrowed until the caller's next wait.
fallible convs_create(struct convs *convs, const struct who *who, const struct conv_spec *spec,
		      struct conv **out, bool *out_made);
// Held until conv_drop(). NOT_FOUND no_session: also one that is being deleted, unless `even`.
fallible convs_find(struct convs *convs, const struct who *who, struct str id, bool even,
		    struct conv **out);
void conv_drop(struct conv *conv);
static inline void auto_conv_(struct conv **conv)
{
	if (*conv)
		conv_drop(*conv);
}
#define auto_conv on_exit_call(auto_conv_) struct conv *

// Ids are each tenant's own. The operator, who sees all of them, names another's TENANT__ID.
const char *conv_name(const struct conv *conv, const struct who *who);
void conv_write(struct json_out *out, const struct conv *conv, const struct who *who);
const char *conv_box(const struct conv *conv);	     // its sandbox, in the fleet
const char *conv_directory(const struct conv *conv); // the name of its directories there
bool conv_is_deleting(const struct conv *conv);
const struct lease *conv_lease(const struct conv *conv);
// All of them that `who` may see, by id, behind `after`; up to `max`. Does not wait.
void convs_write_page(struct convs *convs, const struct who *who, struct str after, size_t max,
		      struct json_out *out);

// A run. Durable on return; it starts by itself. EXHAUSTED too_many_runs, too_much_input;
// UNAVAILABLE cleanup_exhausted, state_unwritable; NO_SPACE capacity_rejected …
struct conv_run_spec {
	struct str input;	 // JSON
	const struct pairs *env; // may be NULL
	uint64_t timeout_ms;	 // 0: none
};
fallible conv_run(struct conv *conv, const struct who *who, const struct conv_run_spec *spec,
		  struct json_out *out);
// NOT_FOUND no_run.
fallible conv_write_run(struct conv *conv, const struct who *who, struct str run,
			struct json_out *out);
// Its runs, the newest first, behind the run `after`; up to `max`. Without what they were given and
// found.
fallible conv_write_runs(struct conv *conv, const struct who *who, struct str after, size_t max,
			 struct json_out *out);
// Its log: one JSON line an event, by byte offset. Held.
fallible conv_log(struct conv *conv, struct str run, struct tape **out);
// How the line begins that stands behind lines which found no room.
#define CONV_CUT_MARK "\n{\"type\":\"truncated\","
// False: there is none, or half of one.
bool conv_log_line_is_whole(struct str line);

// Ends what is under way. Durable on return. CONFLICT nothing_runs.
fallible conv_interrupt(struct conv *conv);
// A place to work in beside the runner: its sandbox runs and its directories are there on return,
// as for a run. Waits while a runner is being stopped; UNAVAILABLE runner_stopping,
// cleanup_exhausted; NO_SPACE capacity_rejected …
fallible conv_enter(struct conv *conv);
// CONFLICT no_question.
fallible conv_answer(struct conv *conv, struct str question, struct str answer);
// The intent is durable on return. *out_gone: so is the end.
fallible conv_delete(struct conv *conv, bool *out_gone);
void conv_write_logs(struct conv *conv, const struct who *who, struct json_out *out);

// A part of every sweep: leases act by their own deadlines; what they ended is counted here, and
// those that are held up are told.
fallible convs_sweep(void *convs, struct sweep_round *round);

struct convs_view {
	size_t sessions, runs;
	size_t leases[LEASE_STATE_COUNT];
	uint64_t attempts, alerts, rejected, cleaned, skipped; // since the start
	int64_t oldest_stop_ms; // age of the oldest STOP_NEEDED; 0: none
};
struct convs_view convs_look(const struct convs *convs);
size_t convs_owned(const struct convs *convs, const char *tenant); // sessions of a tenant
