// State of agent sessions, for the files of this folder; others use agent/session.h.
//
// Each session has one task, its actor, which alone changes its lease, runs and record. Requests
// queue a command and signal `wake`. So nothing changes between the actor's reads and writes.
#pragma once

#include "agent/session.h"
#include "base/map.h"
#include "box/tape.h"
#include "loop/task.h"

struct runner_link; // the connection to a runner

// clang-format off
#define RUN_STATES(X) \
	X(QUEUED, "queued") X(RUNNING, "running") X(COMPLETED, "completed") X(FAILED, "failed") \
	X(INTERRUPTED, "interrupted")
// clang-format on
enum run_state {
#define X(name, word) RUN_##name,
	RUN_STATES(X)
#undef X
		RUN_STATE_COUNT
};

enum run_log {
	RUN_LOG_NONE,	 // nothing was written
	RUN_LOG_CLOSED,	 // an earlier daemon may have begun it, or a write failed
	RUN_LOG_OPENING, // signals the session's `changed` when it is done
	RUN_LOG_OPEN,
};

struct run {
	struct agent_session *agent;
	struct link link; // of agent->runs, in order
	char id[LEASE_RUN_LEN + 1];
	uint64_t version; // in the store
	enum run_state state;
	enum run_state stored; // the committed state, which clients see
	struct str input;      // JSON; owned
	uint64_t cost;	       // bytes of its tenant's share; returned when it is freed
	struct env_map env;
	uint64_t timeout_ms;
	int64_t created_ms, started_ms, ended_ms, deadline_ms; // wall clock; 0: not yet, none
	uint64_t generation, run_generation;		       // of the lease that it ran under
	char instance[LEASE_INSTANCE_LEN + 1];
	int64_t grace_ms;  // a lost connection must be back by then; 0: connected
	uint64_t seq;	   // the last message of the runner that is in the log
	uint64_t tries;	   // failed launches
	bool active;	   // the runner has sent a message about the run
	char code[40];	   // of a failure; "": none
	char *message;	   // owned
	struct str result; // JSON; owned; at == NULL: none
	char question[65]; // open; "": none
	char *asked;	   // the question as JSON; owned
	enum run_log log_state;
	struct tape *log; // RUN_LOG_OPEN; else NULL
	bool unkept;	  // the last lines of its log found no space
};

// The values that a failed commit restores.
struct run_before {
	enum run_state state;
	int64_t started_ms, ended_ms, deadline_ms, grace_ms;
	uint64_t generation, run_generation, tries;
	bool active;
};

// How a run ends that its runner does not end.
struct run_end {
	enum run_state state;
	const char *code, *message;
};

// Memory that the open runs and the choices of one tenant's sessions take.
struct agent_share {
	uint64_t bytes;
};

// The phase of a session; agent/table.c has the transitions.
enum agent_phase {
	AGENT_NEW,	// in memory only
	AGENT_CREATING, // in the table with its names reserved; its record is not durable yet
	AGENT_ADOPTING, // from the store; its lease was not compared with the processes yet
	AGENT_LIVE,
	AGENT_GONE, // out of the table; references may be left
	AGENT_PHASE_COUNT
};
// Its deletion, beside the phase: a daemon may be restarted in each step.
enum agent_deletion {
	DELETION_NONE,
	DELETION_REQUESTED, // the lease is being brought to none
	DELETION_FORCED,    // removal of the whole sandbox was tried, once
	DELETION_VERIFIED,  // the runner is verified gone: files and records may be removed
	DELETION_COUNT
};
enum agent_change {
	AGENT_LISTED, // into the table, by a create
	AGENT_LOADED, // into the table, from the store
	AGENT_COMMITTED,
	AGENT_RECONCILED,
	AGENT_UNLISTED,
	AGENT_DELETE,
	AGENT_DELETE_UNDONE, // the commit failed
	AGENT_FORCE,
	AGENT_FORCE_UNDONE,
	AGENT_VERIFIED,
	AGENT_CHANGE_COUNT
};
// Why cove ends the runner by itself, until the runner is verified gone.
enum agent_loss {
	LOSS_NONE,
	LOSS_LATE,    // it did not start in time
	LOSS_STUCK,   // its run took too long
	LOSS_SANDBOX, // its sandbox was destroyed during a run
};

struct agent_session {
	struct agent_sessions *agents;
	struct agent_share *share; // its tenant's, while it is in the table
	struct tape_budget *logs;  // likewise: bytes of its run logs on disk
	char *id;		   // as its tenant names it
	char *key;		   // unique among all tenants: agent_key()
	char tenant[WHO_TENANT_MAX + 1];
	char *org, *user, *bot; // NULL: none
	struct owner_route route;
	char *sandbox;		  // as stored: an id, or a legacy one
	char box[ID_BOX_LEN + 1]; // id of the box
	char directory[ID_BOX_LEN + 1];
	enum owner_class class;
	char *aliases[AGENT_ALIASES_MAX];
	size_t alias_count;
	char **argv; // NULL-ended
	struct env_map env;
	struct choices choices;
	int64_t created_ms, used_ms; // wall clock
	uint64_t version;	     // of the session's row
	enum agent_phase phase;
	enum agent_deletion deletion;
	enum agent_loss loss;
	bool lone;		   // a lease without a session: to be stopped
	bool derived;		   // its record had no sandbox: store the derived id
	bool prepared;		   // its directories exist
	bool admitting;		   // its cold start is being measured
	struct agent_refusal room; // the result of its last cold start
	uint64_t reserved;	   // bytes that admission reserved for it
	int64_t reserved_at;	   // loop time

	struct lease lease; // as it is stored
	uint64_t lease_version;
	struct link runs; // that have not ended, oldest first
	size_t run_count;

	// Used by the actor.
	struct task *actor;
	struct condition wake, changed; // signalled to the actor; by the actor
	struct link commands;		// struct command, in order
	bool recheck;			// a user's run wants a quarantined lease checked
	int64_t retry_at;		// loop time before which nothing is tried; 0: none
	int64_t launch_at;		// loop time before which nothing is launched
	struct runner_link *runner;	// NULL: not connected
	uint64_t sent_on; // the connection on which the first run was sent; 0: not sent
	int64_t alive_at; // loop time of the last keep_alive of the sandbox
	struct {
		char attempt[LEASE_ATTEMPT_LEN + 1]; // "": no result
		enum lease_seen seen;
		char error[LEASE_ERROR_MAX];
	} stopped; // the result of a stop attempt
	// Supervision, in loop time.
	int64_t output_at, received_at, beat_at, pinged_at; // pinged 0: no pong is due
	uint64_t pings;
	uint16_t port; // the runner listens here; 0: it does not

	int refs;
	struct link link; // of agents->all
};

// A client's command to the actor. On the stack of the client's task, which waits, shielded.
enum command_kind {
	COMMAND_INTERRUPT,
	COMMAND_DELETE,
	COMMAND_ANSWER,
	COMMAND_STOP,
	COMMAND_ENTER,
	COMMAND_COUNT
};
struct command {
	enum command_kind kind;
	struct str question, answer;
	enum lease_reason reason;
	bool done;
	struct err *err;
	struct condition granted;
	struct link link;
};

struct agent_sessions {
	struct loop *loop;
	struct store *store;
	const struct backend *backend;
	int dir;
	struct tape_quota *(*output_of)(void *arg, const char *tenant); // NULL: no quotas
	void *output_arg;
	char *isolate, *tag;
	uint64_t threshold;
	struct map *by_key, *by_alias;
	struct map *shares;   // tenant -> struct agent_share
	uint64_t input_share; // bytes of each
	struct link all;
	size_t count;
	struct map *routes; // sandbox id -> struct wedge (agent/fallback_box.c)
	int64_t wall_base, mono_base;
	uint64_t connections; // the last connection number
	bool closing;
	bool draining;		   // no launches any more
	struct condition admitted; // a cold start was measured
	uint64_t reserved;	   // bytes reserved for cold starts
	struct agent_refusal refusal;
	uint64_t class_max[OWNER_CLASSES];
	uint64_t attempts, alerts, rejected, cleaned, skipped;
	// Since the last sweep: runners that did not start in time, and those verified gone; runs
	// that took too long, verified gone.
	uint64_t orphans, orphans_ended, stuck_ended;
	struct task *maintainer;
	size_t tasks;	       // running tasks
	struct condition idle; // signalled when a task ends
};

// Wall clock at the start plus monotonic time: does not jump.
int64_t agents_now(const struct agent_sessions *agents);
struct backend_site agent_local(const struct agent_session *agent);
void agent_ref(struct agent_session *agent);
// Applies a change to phase or deletion. False: not in the table, and nothing changed.
bool agent_move(struct agent_session *agent, enum agent_change change);
static inline bool agent_is_listed(const struct agent_session *agent)
{
	return agent->phase >= AGENT_CREATING && agent->phase <= AGENT_LIVE;
}
// Others may see it.
static inline bool agent_is_durable(const struct agent_session *agent)
{
	return agent->phase == AGENT_ADOPTING || agent->phase == AGENT_LIVE;
}
static inline bool runs_is_over(const struct run *run)
{
	return run->state >= RUN_COMPLETED;
}
// The oldest run that has not ended; NULL: none.
struct run *agent_first(const struct agent_session *agent);
struct run *agent_running(const struct agent_session *agent); // that the runner has accepted
const char *runs_state_word(enum run_state state);
// Frees a run; returns its bytes to the tenant's share, closes its log.
void runs_free(struct run *run);
void runs_weigh(struct run *run); // counts it in its tenant's share
void runs_list(struct run *run);
void runs_unlist(struct run *run); // it has ended, and the store has it
// A task of this folder begins or ends: agents_stop() waits for them.
static inline void agents_begin(struct agent_sessions *agents)
{
	agents->tasks++;
}
static inline void agents_end(struct agent_sessions *agents)
{
	agents->tasks--;
	condition_signal(&agents->idle);
}
// In transition.c. Applies an event: commits the new state of the lease and of `run` (already
// changed; NULL: none; `before` restores it), then acts. `lost` is how a run ends that loses its
// runner by the event.
struct transition {
	struct lease_event event;
	struct run *run;
	struct run_before before;
	struct run_end lost;
};
fallible transition_apply(struct agent_session *agent, struct transition *transition);
fallible transition_event(struct agent_session *agent, enum lease_event_kind kind);
// Ends a run without an event of the lease.
fallible transition_fail_run(struct run *run, const struct run_end *end);
// In launch.c. The steps of a start, in order; each is logged to `run` (NULL: none).
enum launch_step { LAUNCH_PROVISION, LAUNCH_DISK, LAUNCH_WORKSPACE, LAUNCH_RUNNER, LAUNCH_STEPS };
fallible launch_run(struct agent_session *agent, struct run *run, enum launch_step last);
void launch_log_steps(struct run *run);		     // all of them: the runner was there already
fallible launch_attach(struct agent_session *agent); // to the socket of a running runner
bool launch_is_early(const struct err *err); // a part of cove was not ready: not the runner's fault
bool launch_may_retry(const struct run *run, const struct err *err);
void launch_disconnect(struct agent_session *agent);
// In actor.c: starts the actor; queues a command for it and waits for the result.
void actor_start(struct agent_session *agent);
fallible actor_ask(struct agent_session *agent, struct command *command);
// In handler.c: handles the runner's oldest message. *out_did: there was one.
fallible handler_next(struct agent_session *agent, bool *out_did);
fallible handler_send_run(struct agent_session *agent); // to a ready runner, once per connection
// In supervise.c: loop time of the next check; CLOCK_NEVER: none.
int64_t supervise_next(const struct agent_session *agent);
fallible supervise(struct agent_session *agent, bool *out_did);
// In attempt.c. Observes the runner, bounded in time: sets event->seen and event->error, to `why`.
void attempt_observe(struct agent_session *agent, struct lease_event *event,
		     char why[LEASE_ERROR_MAX]);
void attempt_start(struct agent_session *agent); // the stop attempt that the lease names, in a task
// In table.c: releases the reservation of its cold start.
void agent_unreserve(struct agent_session *agent);
void agent_note_alive(struct agent_session *agent); // the runner showed a sign of life
// By its id as `who` names it; NULL: none.
struct agent_session *agents_named(const struct agent_sessions *agents, const struct who *who,
				   struct str id);
// The key of a session among all tenants: its id for the operator's, TENANT__ID for others, which
// no id can equal. False: the id is too long.
#define AGENT_KEY_MAX (WHO_TENANT_MAX + 2 + AGENT_ID_MAX)
bool agent_key(const char *tenant, struct str id, char out[AGENT_KEY_MAX + 1]);
// The inverse: points into the key.
const char *agent_id_of(const char *tenant, const char *key);
// Adds it to the table with its id and aliases reserved; false: one of them is taken.
struct agent_session *agent_new(struct agent_sessions *agents);
bool agent_list(struct agent_session *agent, enum agent_change change);
uint64_t agents_share(const struct agent_sessions *agents, const char *tenant); // its bytes
// Removes it from the table; the last reference frees it.
void agent_unlist(struct agent_session *agent);
// The key of an alias: unique per owner.
void agent_alias_key(const char *tenant, const struct owner *owner, struct str alias,
		     struct buf *out);
fallible agent_absent(struct str id);
fallible agent_starting(void);
fallible agent_draining(void);
