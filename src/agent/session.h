// Agent sessions: long-lived owners of runs, each with at most one supervised runner in a sandbox
// of its owner. The public interface. Each function authorises `who`; a session that the caller may
// not see is absent.
#pragma once

#include "agent/backend.h"
#include "agent/choices.h"
#include "manager/access.h"
#include "manager/manager.h"
#include "manager/sweep.h"
#include "store/store.h"
#include "types/env_map.h"
#include "types/lease.h"
#include "types/owner.h"
#include "types/who.h"

#define AGENT_ALIASES_MAX 16
#define AGENT_ARGS_MAX 256
#define AGENT_QUEUE_MAX 64		// queued runs of one session
#define AGENT_INPUT_MAX (1 << 20)	// bytes of a run's input, and of its result
#define AGENT_INPUT_SHARE (64ull << 20) // bytes of input of a tenant's queued runs
#define AGENT_ID_MAX OWNER_PART_MAX

struct agent_sessions;
struct agent_session;

struct agents_options {
	struct loop *loop;
	struct store *store;
	const struct backend *backend; // borrowed
	int dir;		       // for the logs of runs; borrowed
	// The account for a tenant's output on disk, borrowed; NULL: not counted.
	struct tape_quota *(*output_of)(void *arg, const char *tenant);
	void *output_arg;
	const char *isolate;  // organisations whose sessions get a sandbox each; "*": all
	const char *tag;      // of shared ids; "": none
	uint64_t threshold;   // bytes that a cold start needs; 0: the default
	uint64_t input_share; // bytes of queued input of one tenant; 0: the default
	uint64_t class_max[OWNER_CLASSES]; // running sandboxes of each; 0: no limit
};

// Loads the stored sessions. Nothing is launched before agents_start().
fallible agents_open(const struct agents_options *options, struct agent_sessions **out);
// Reconciles every lease with the observed processes, then serves. Until then runs are only queued.
void agents_start(struct agent_sessions *agents);
// Disconnects from runners, which keep running; returns when every task of this folder has ended.
void agents_stop(struct agent_sessions *agents);
void agents_free(struct agent_sessions *agents); // after that
// Reload of isolate, tag, threshold, input_share and class_max, for sessions created from now on.
void agents_configure(struct agent_sessions *agents, const struct agents_options *options);
// Stops every runner; returns when none is left, or TIMEOUT.
fallible agents_drain(struct agent_sessions *agents, int64_t deadline);

// Why the last cold start was refused: for the response, before the next wait.
struct agent_refusal {
	uint64_t available, threshold; // bytes
	uint32_t cleaned, skipped;
};
struct agent_refusal agents_refusal(const struct agent_sessions *agents);

// A create request. Borrowed.
struct agent_spec {
	struct owner owner; // session.at == NULL: a new id
	bool isolated;	    // requested; the operator's setting can only strengthen it
	struct str aliases[AGENT_ALIASES_MAX];
	size_t alias_count;
	const char **argv; // of the runner; NULL-ended
	const struct env_map *env;
	struct choices choices;
};
// A new session, or that of the alias: *out_made says which. Durable before anything is
// provisioned. INVALID invalid_owner; CONFLICT session_taken, alias_taken, sandbox_differs;
// NO_SPACE capacity_rejected; UNAVAILABLE capacity_unknown, state_unwritable; what create_check()
// refuses. Borrowed until the caller's
// next wait.
fallible agents_create(struct agent_sessions *agents, const struct create_grant *grant,
		       const struct agent_spec *spec, struct agent_session **out, bool *out_made);
// Referenced until agent_unref(). NOT_FOUND no_session: also for one that is being deleted, unless
// `even`.
fallible agents_find(struct agent_sessions *agents, const struct who *who, struct str id, bool even,
		     struct agent_session **out);
void agent_unref(struct agent_session *agent);
static inline void auto_agent_(struct agent_session **agent)
{
	if (*agent)
		agent_unref(*agent);
}
#define auto_agent on_exit_call(auto_agent_) struct agent_session *

// Ids are unique per tenant. The operator, who sees all, names another tenant's TENANT__ID.
const char *agent_name(const struct agent_session *agent, const struct who *who);
void agent_write(struct json_out *out, const struct agent_session *agent, const struct who *who);
const char *agent_box(const struct agent_session *agent);	// the id of its sandbox
const char *agent_directory(const struct agent_session *agent); // the name of its directories there
// All sessions that `who` may see, by id, after `after`; up to `max`. Does not wait.
void agents_write_page(struct agent_sessions *agents, const struct who *who, struct str after,
		       size_t max, struct json_out *out);

// Queues a run. Durable on return; it starts by itself. EXHAUSTED too_many_runs, too_much_input;
// UNAVAILABLE cleanup_exhausted, state_unwritable; NO_SPACE capacity_rejected …
struct agent_run_spec {
	struct str input;	   // JSON
	const struct env_map *env; // may be NULL
	uint64_t timeout_ms;	   // 0: none
};
fallible agent_run(struct agent_session *agent, const struct who *who,
		   const struct agent_run_spec *spec, struct json_out *out);
// NOT_FOUND no_run.
fallible agent_write_run(struct agent_session *agent, const struct who *who, struct str run,
			 struct json_out *out);
// Its runs, newest first, after the run `after`; up to `max`. Without input and result.
fallible agent_write_runs(struct agent_session *agent, const struct who *who, struct str after,
			  size_t max, struct json_out *out);
// Its log: one JSON line per event, by byte offset. Referenced.
fallible agent_log(struct agent_session *agent, struct str run, struct tape **out);
// The beginning of the line that follows lines for which there was no space.
#define AGENT_CUT_MARK "\n{\"type\":\"truncated\","
// False: there is none, or half of one.
bool agent_log_line_is_whole(struct str line);

// Ends the current run. Durable on return. CONFLICT nothing_runs.
fallible agent_interrupt(struct agent_session *agent);
// Makes the session's sandbox run and creates its directories, for work besides the runner. Waits
// while a runner is being stopped; UNAVAILABLE runner_stopping, cleanup_exhausted; NO_SPACE
// capacity_rejected …
fallible agent_enter(struct agent_session *agent);
// CONFLICT no_question.
fallible agent_answer(struct agent_session *agent, struct str question, struct str answer);
// The delete is durable on return. *out_gone: the session is gone.
fallible agent_delete(struct agent_session *agent, bool *out_gone);
void agent_write_logs(struct agent_session *agent, const struct who *who, struct json_out *out);

// Part of every sweep: counts what leases have ended by their own deadlines, and raises an alert
// for overdue stops.
fallible agents_sweep(void *agents, struct sweep_round *round);

size_t agents_owned(const struct agent_sessions *agents,
		    const char *tenant); // sessions of a tenant

// Numbers for the monitor. Does not wait.
struct agents_view {
	uint64_t leases[LEASE_STATE_COUNT];
	uint64_t attempts;	// to stop a runner, since the start
	int64_t oldest_stop_ms; // how long ago the oldest STOP_NEEDED was asked for; 0: none
	uint64_t overdue;	// STOP_NEEDED for longer than TIMER_ORPHAN
	uint64_t unreadable;	// leases whose record cannot be read
	uint64_t late, stuck;	// runners that did not start in time, runs that took too long: not
				// verified gone yet
	uint64_t queued, running; // runs
	// Of cold starts, since the start.
	uint64_t rejected, cleaned, skipped;
};
struct agents_view agents_look(const struct agent_sessions *agents);
