// State of executions, for the files of this folder; others use execution/execution.h.
//
// Each live execution has one task, its actor, which alone changes its lease and record. Requests
// queue a command and signal `wake`. Times are of the steady clock, which goes on over restarts of
// the daemon and ignores changes of the host's clock.
#pragma once

#include "base/clock.h"
#include "base/map.h"
#include "execution/execution.h"
#include "manager/pull.h"
#include "types/job.h"
#include "types/lease.h"

// clang-format off
#define EXECUTION_STATES(X) \
	X(QUEUED, "queued") X(INITIALIZING, "initializing") X(READY, "ready") \
	X(RUNNING, "running") X(COMPLETED, "completed") X(FAILED, "failed")
#define EXECUTION_OUTCOMES(X) \
	X(NONE, "") X(COMPLETED, "completed") X(EXIT, "exit_nonzero") \
	X(MEMORY, "limit_memory") X(CPU_TIME, "limit_cpu_time") X(TIMEOUT, "timeout") \
	X(NETWORK, "limit_network") X(STORAGE, "limit_storage") X(INFRA, "infra") \
	X(CANCELLED, "cancelled") X(REPORTED, "reported") X(QUEUE_TIMEOUT, "queue_timeout") \
	X(ARTIFACTS, "artifacts_missing")
// clang-format on
enum execution_state {
#define X(name, word) EXECUTION_##name,
	EXECUTION_STATES(X)
#undef X
		EXECUTION_STATE_COUNT
};
enum execution_outcome {
#define X(name, word) OUTCOME_##name,
	EXECUTION_OUTCOMES(X)
#undef X
		OUTCOME_COUNT
};
const char *execution_state_word(enum execution_state state);
const char *execution_outcome_word(enum execution_outcome outcome);

#define EXECUTION_TRIES_MAX 4 // the first, and three more
#define EXECUTION_REASON_MAX 64
#define EXECUTION_NOTES_MAX 128
#define EXECUTION_REPOSITORY "repository" // the label that names the repository it works on
#define EXECUTION_PROC "main"		  // the id of its command in the sandbox

struct execution_attempt {
	char box[ID_BOX_LEN + 1];
	int64_t started_ms, ended_ms;
	enum execution_outcome outcome;
};

// A change of state, or a step of a start: what /events tells, in order.
struct execution_note {
	bool is_step;
	char name[24];
	char reason[EXECUTION_REASON_MAX];
	int64_t at_ms, duration_ms; // of a step; -1: not over
	uint32_t attempt;
};

struct execution_usage {
	uint64_t cpu_ms, memory_peak, network_requests, bytes_in, bytes_out, storage;
	bool is_opaque;
};

// How an attempt ends.
struct attempt_end {
	enum execution_outcome outcome;
	const char *reason; // "": none
	int exit_code;	    // -1: none
	int signal;
};

enum execution_phase {
	EXECUTION_NEW,	    // in the table; its record is not durable yet
	EXECUTION_ADOPTING, // from the store; its lease was not compared with the sandbox yet
	EXECUTION_LIVE,
	EXECUTION_GONE, // out of the table; references may be left
};

// The pull of its image, by a task.
enum execution_pull {
	PULL_NONE,    // none; or its image is not known to be there
	PULL_RUNNING, // the task runs
	PULL_ENDED,   // it has ended, with pull_err: the actor takes that
	PULL_THERE,   // its image is there: a sandbox can be made
	PULL_STATES
};

// A place among the executions that may have a sandbox.
enum execution_slot {
	SLOT_NONE,
	SLOT_QUEUED,   // it waits, in owner->waiting
	SLOT_STARTING, // its sandbox is being made: counted in all->slots and all->starting
	SLOT_HELD,     // counted in all->slots
	SLOT_STATES
};

// The start of the sandbox of an attempt, by a task.
enum execution_launch {
	LAUNCH_NONE,
	LAUNCH_PREPARING, // the task runs; the attempt is not durable, so nothing is ordered
	LAUNCH_RUNNING,	  // the task runs; the sandbox may be made
	LAUNCH_ENDED,	  // it has ended, with launch_err: the actor takes that
	LAUNCH_STATES
};

enum execution_verb { VERB_CANCEL, VERB_COMPLETE, VERB_FAIL, VERB_ENTER, VERB_COUNT };
struct execution_command {
	enum execution_verb verb;
	struct str text;
	bool done;
	struct err *err;
	struct condition granted;
	struct link link;
};

struct execution {
	struct executions *all;
	enum execution_phase phase;
	int refs;
	struct link link;	   // of all->live
	struct link place;	   // of owner->waiting
	struct queue_owner *owner; // while it is SLOT_QUEUED; else NULL
	struct task *actor;
	struct condition wake, changed; // for the actor; by the actor
	struct link commands;

	// The record, as it is being changed; `shown` is what was committed last.
	char id[EXECUTION_ID_LEN + 1];
	char tenant[WHO_TENANT_MAX + 1];
	char profile[PROFILE_NAME_MAX + 1];
	char *agent_type, *task_id; // NULL: not given
	char *retry_of, *replay_of; // likewise
	char *mark;
	// Pulled by name, and pinned to its digest as soon as that is known; image NULL: its
	// sandbox is of a template.
	struct pull_want want;
	struct env_map labels;
	enum execution_state state, stored; // `stored`: as it was committed last
	enum execution_outcome outcome;
	int exit_code, signal; // -1, 0: none
	char reason[EXECUTION_REASON_MAX];
	char *result;	   // JSON of /complete; NULL: none
	char *last_output; // of the attempt that failed; NULL: none
	struct execution_attempt attempts[EXECUTION_TRIES_MAX];
	uint32_t attempt_count;
	struct execution_note notes[EXECUTION_NOTES_MAX];
	uint32_t note_count;
	struct execution_usage usage;
	bool measured;
	struct {
		int64_t count, bytes;
		bool partial;
		char *missing; // JSON array; NULL: not collected
	} artifacts;
	int64_t created_ms, dispatched_ms, provisioned_ms, ready_ms, ended_ms, gone_ms;
	// For the actor and the next daemon.
	struct lease lease;
	int64_t version;
	struct profile_limits limits;
	bool has_command;
	bool must_artifacts;
	bool begun;	  // the command of this attempt may have begun
	bool by_operator; // made it: its image may be on loopback
	bool never_pull;  // its image
	// How cove is ending this attempt; NONE: it is not. Durable before its command is killed.
	enum execution_outcome intent;
	char intent_reason[EXECUTION_REASON_MAX];
	enum job_retry retry;
	int64_t wall_at, queue_at, next_at; // steady; 0: none
	struct str shown;
	struct str request; // as it was sent, if it is small; at == NULL: read it from the store

	// In memory only.
	enum execution_slot slot;
	const char *wait_reason; // of the queue: a literal
	bool requeue;		 // there was no room after all: back to the queue
	enum execution_pull pull;
	struct err *pull_err;
	enum execution_launch launch;
	struct err *launch_err;
	struct proc *proc; // held; NULL: not known yet
	bool watching;	   // a task waits for its end
	int64_t look_at;   // loop time of the next look at the counters
	int64_t memory_at; // of the next look at the kernel's kills
	struct {
		char attempt[LEASE_ATTEMPT_LEN + 1]; // "": no result
		enum lease_seen seen;
		char error[LEASE_ERROR_MAX];
	} stopped;
};

struct executions {
	struct executions_options options;
	struct loop *loop;
	struct map *by_id;
	struct link live;
	struct link owners; // that have executions in the queue, in the order of their turns
	size_t slots;	    // executions that have one
	size_t starting;    // of those, the ones whose sandbox is being made
	size_t queued;
	const char *held_up; // why the queue did not move last; NULL: it did
	uint64_t max, queue_max;
	struct profiles profiles;
	bool started, draining;
	struct timer timer;	     // looks for room again
	struct condition changed;    // an execution left the table
	size_t large;		     // starts that hold a large request
	struct condition large_left; // one of them has ended
};

static inline bool execution_is_over(const struct execution *execution)
{
	return execution->state >= EXECUTION_COMPLETED;
}
static inline struct execution_attempt *execution_attempt(struct execution *execution)
{
	return execution->attempt_count ? &execution->attempts[execution->attempt_count - 1] : NULL;
}

// In states.c.
void execution_set_pull(struct execution *execution, enum execution_pull pull);
void execution_set_slot(struct execution *execution, enum execution_slot slot);
void execution_set_launch(struct execution *execution, enum execution_launch launch);
static inline bool execution_is_launching(const struct execution *execution)
{
	return execution->launch == LAUNCH_PREPARING || execution->launch == LAUNCH_RUNNING;
}
static inline bool execution_has_slot(const struct execution *execution)
{
	return execution->slot >= SLOT_STARTING;
}
// The attempt is durable: a launch that prepares goes on.
void execution_set_stored(struct execution *execution);

// In table.c.
struct execution *execution_new(struct executions *executions);
void execution_ref(struct execution *execution);
void execution_list(struct execution *execution, enum execution_phase phase);
void execution_unlist(struct execution *execution);
// Waits until the attempt is durable. CANCELLED: it will not be.
fallible execution_await_stored(struct execution *execution);
fallible execution_absent(struct str id);
// The row of one that is not live. NOT_FOUND no_execution.
struct store_execution;
fallible executions_past(struct executions *executions, const struct who *who, struct str id,
			 struct arena *arena, struct store_execution *out);
void execution_note_state(struct execution *execution, const char *reason);
void execution_note_step(struct execution *execution, const char *step); // ends the one before

#define EXECUTION_REQUEST_KEPT (64u << 10)
// Its request: in memory, or of the store. NOT_FOUND no_request.
fallible execution_request(struct execution *execution, struct arena *arena, struct str *out);

// Texts larger than EXECUTION_REQUEST_KEPT are read by a worker. `with_files`: the context, too.
fallible execution_read_job(struct str text, bool with_files, struct job *out);

// In record.c. The record as clients see it; commits it, `shown` and the version change on success.
void execution_write(struct json_out *out, const struct execution *execution);
struct execution_write {
	struct str request;			 // of a new one
	const struct store_result_rows *results; // of the attempt that ends; NULL: none
	bool soon;				 // nobody waits for it
};
fallible execution_commit(struct execution *execution, const struct execution_write *write);
void execution_show(struct execution *execution, struct buf *record); // takes the text over
bool execution_load(struct execution *execution, const struct str *record, const struct str *inner);

// In queue.c.
void queue_join(struct execution *execution);
bool queue_take_slot(struct execution *execution); // at once; false: it has to wait
void queue_quit(struct execution *execution);	   // harmless when it does not wait
void queue_started(struct execution *execution);   // its sandbox is made, or is not
void queue_give_back(struct execution *execution);
void queue_dispatch(struct executions *executions);
// EXHAUSTED: it would have to wait.
fallible queue_has_room(const struct executions *executions, struct execution *execution);
struct limits queue_limits(const struct execution *execution);
uint32_t queue_position(const struct execution *execution);

// In sandbox.c: everything that an execution does to its sandbox. All of them wait.
struct who sandbox_who(const struct execution *execution);
// Whether the request is allowed, and whether its image is there.
fallible sandbox_check(struct execution *execution, const struct who *who,
		       const struct job *request, const struct profile *profile);
fallible sandbox_pull(struct execution *execution, int64_t deadline); // its image is there, pinned
fallible sandbox_launch(struct execution *execution);		      // the steps of a start
fallible sandbox_begin(struct execution *execution);		      // its command
enum lease_seen sandbox_observe(struct execution *execution, char why[LEASE_ERROR_MAX]);
fallible sandbox_remove(struct execution *execution);
// Its command; *out NULL: none has begun. An error says nothing about it: the sandbox may not be
// adopted yet.
fallible sandbox_find_proc(const struct execution *execution, struct proc **out);
void sandbox_measure(struct execution *execution);
bool sandbox_is_full(const struct execution *execution);
bool sandbox_met_oom(const struct execution *execution); // does not wait
bool sandbox_was_refused(const struct execution *execution);
void sandbox_quiet(struct execution *execution); // kills its command
struct results_found;
fallible sandbox_collect(struct execution *execution, struct arena *arena,
			 struct results_found *out);
// After the commit that ends the attempt.
void sandbox_settle(struct execution *execution, const struct results_found *found, bool is_kept);
void sandbox_sample(const struct execution *execution); // its use, for the accounts

// In actor.c.
// Before the first commit: gives it a slot and an attempt if nobody waits and there is room.
void actor_prepare(struct execution *execution);
void actor_begin(struct execution *execution);
fallible actor_command(struct execution *execution, struct execution_command *command);
