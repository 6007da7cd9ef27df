// The state of conversations, for the files of this room alone; others know it by agent/session.h.
//
// A conversation has one task, its keeper, and nobody else changes its lease, its runs or its
// record: requests leave a wish and ring. So between looking and writing nothing can come.
#pragma once

#include "agent/session.h"
#include "base/map.h"
#include "box/tape.h"
#include "loop/task.h"

struct link_to; // the dialogue with a runner

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

struct run {
	struct agent_session *agent;
	struct link link; // of conv->runs, in order
	char id[LEASE_RUN_LEN + 1];
	uint64_t version; // in the store
	enum run_state state;
	enum run_state told; // while `unsure`: as it is stored
	bool unsure;	     // its new state is not committed yet
	struct str input;    // JSON; owned
	uint64_t cost;	     // of its tenant's share; given back with it
	struct env_map env;
	uint64_t timeout_ms;
	int64_t created_ms, started_ms, ended_ms, deadline_ms; // wall clock; 0: not yet, none
	uint64_t generation, run_generation;		       // that it ran under
	char instance[LEASE_INSTANCE_LEN + 1];
	int64_t grace_ms;  // a lost connection must be back by then; 0: it is there
	uint64_t seq;	   // the last word of the runner that is on the log
	uint64_t tries;	   // launches that failed for it
	bool active;	   // it has said something about the run
	char code[40];	   // of a failure; "": none
	char *message;	   // owned
	struct str result; // JSON; owned; at == NULL: none
	char question[65]; // open; "": none
	char *asked;	   // the question as JSON; owned
	struct tape *log;  // NULL: not open
	bool earlier;	   // it is of an earlier daemon, which may have begun its log
	bool opening;	   // its log is being opened; the session's `changed` rings
	bool unkept;	   // the last lines of its log found no room
};

// What a commit that fails must leave as it was.
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

// What the runs of one tenant that have not ended make cove hold.
struct agent_share {
	uint64_t bytes;
};

struct agent_session {
	struct agent_sessions *agents;
	struct agent_share *share; // once it is listed; its tenant's
	struct tape_budget *logs;  // likewise: of its runs, on disk
	char *id;		   // as its tenant names it
	char *key;		   // among all: agent_key()
	char tenant[WHO_TENANT_MAX + 1];
	char *org, *user, *bot; // NULL: none
	struct owner_route route;
	char *sandbox;		  // as it is stored: an id, or a legacy one
	char box[ID_BOX_LEN + 1]; // in the fleet
	char directory[ID_BOX_LEN + 1];
	enum owner_class class;
	char *aliases[AGENT_ALIASES_MAX];
	size_t alias_count;
	char **argv; // NULL-ended
	struct env_map env;
	int64_t created_ms, used_ms; // wall clock
	uint64_t version;	     // of the session's row
	bool lone;		     // a lease without a session: to be ended
	bool deleting, forced;	     // forced: a removal of the whole sandbox was tried once
	bool derived;		     // its record had no sandbox: what it got is to be kept
	bool prepared;		     // its directories were made
	bool destroyed;		     // its sandbox was, under it
	bool admitting;		     // its cold start is being measured
	bool orphaned;		     // it did not start in time, and is being ended
	bool stuck;		     // likewise, for it took too long
	struct agent_refusal room;   // what its last cold start found
	uint64_t reserved;	     // bytes that admission promised to it
	int64_t reserved_at;	     // loop time

	struct lease lease; // as it is stored
	uint64_t lease_version;
	struct link runs; // that have not ended, oldest first
	size_t run_count;

	// the keeper's
	struct task *actor;
	struct condition wake, changed; // for it; by it
	bool reconciled;
	struct link commands; // struct wish, in order
	bool swept;	      // since the deletion, absence was verified
	bool force;	      // a user's run asks for a look at a quarantined lease
	int64_t retry_at;     // loop time: nothing is tried before; 0: at once
	int64_t launch_at;    // loop time: nothing is launched before
	struct link_to *talk; // NULL: nobody to talk to
	uint64_t sent_on;     // the connection that the first run was sent on; 0: it was not
	int64_t alive_at;     // loop time: the sandbox was last told that it is used
	struct {
		bool there;
		char attempt[LEASE_ATTEMPT_LEN + 1];
		enum lease_seen seen;
		char error[LEASE_ERROR_MAX];
	} stopped; // the result of an attempt
	// supervision; loop time
	int64_t output_at, heard_at, beat_at, pinged_at; // pinged 0: no answer is due
	uint64_t pings;
	uint16_t port; // where the runner takes connections; 0: nowhere

	int holds;
	bool listed;	  // in the table
	bool born;	  // durable: others may see it
	struct link link; // of convs->all
};

// What somebody asks of a keeper. On the asking task's stack, which waits, shielded.
enum command_kind {
	COMMAND_INTERRUPT,
	COMMAND_DELETE,
	COMMAND_ANSWER,
	COMMAND_STOP,
	COMMAND_ENTER
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
	uint64_t connections; // numbers given out
	bool started, closing;
	bool draining;		   // nothing is launched any more
	struct condition admitted; // a cold start was measured
	uint64_t reserved;	   // bytes promised to cold starts under way
	struct agent_refusal refusal;
	uint64_t class_max[OWNER_CLASSES];
	uint64_t attempts, alerts, rejected, cleaned, skipped;
	uint64_t orphans, orphans_ended; // runners that did not start in time; verified gone
	uint64_t stuck_ended;		 // those that took too long; verified gone
	uint64_t told_orphans, told_ended, told_stuck;
	struct task *maintainer;
	size_t tasks;	       // that are under way
	struct condition idle; // rings when one ends
};

// Wall clock that does not jump while this process lives.
int64_t agents_now(const struct agent_sessions *agents);
struct backend_site agent_local(const struct agent_session *agent);
void agent_ref(struct agent_session *agent);
static inline bool runs_is_over(const struct run *run)
{
	return run->state >= RUN_COMPLETED;
}
struct run *agent_first(
	const struct agent_session *agent); // the oldest run that has not ended; NULL: none
struct run *agent_running(const struct agent_session *agent); // the one that the runner has taken
const char *runs_state_word(enum run_state state);
// A task of this room begins, or ends: agents_stop() waits for them.
static inline void agents_begin(struct agent_sessions *agents)
{
	agents->tasks++;
}
static inline void agents_end(struct agent_sessions *agents)
{
	agents->tasks--;
	condition_signal(&agents->idle);
}
// In keeper.c.
void actor_start(struct agent_session *agent);
// In transition.c.
// Hears an event: commits what it means for the lease and for `run` (as it stands by now; NULL:
// none; `before` is what it was), then does what is to be done. `lost` is how a run ends that loses
// its runner by it.
struct hearing {
	struct lease_event event;
	struct run *run;
	struct run_before before;
	struct run_end lost;
};
fallible keeper_hear(struct agent_session *agent, struct hearing *hearing);
fallible keeper_tell(struct agent_session *agent, enum lease_event_kind kind, const char *error);
// Its sandbox runs and its directories are there, made or woken if need be; `run` is told the
// steps.
fallible keeper_settle(struct agent_session *agent, struct run *run);
fallible keeper_talk(struct agent_session *agent, int fd); // to its runner; takes the fd over
void keeper_drop_talk(struct agent_session *agent);
// The run has ended in the store: its readers learn of it, and memory lets it go. Else nothing.
void keeper_end_run(struct run *run);
// In wish.c. Waits until it is granted, or refused; for the keeper: the first that waits; and those
// that will never be granted.
fallible agent_command_ask(struct agent_session *agent, struct command *command);
void agent_command_grant(struct agent_session *agent, bool *out_did);
void agent_command_dismiss(struct agent_session *agent);
// In reconcile.c.
fallible reconcile(struct agent_session *agent);
// In hear.c: the oldest word of the runner. *out_did: there was one.
fallible handler_word(struct agent_session *agent, bool *out_did);
fallible handler_send_run(
	struct agent_session *agent); // to a runner that is ready, once a connection
// In supervise.c. Loop time of the next look; CLOCK_NEVER: none.
int64_t supervise_next(const struct agent_session *agent);
fallible supervise(struct agent_session *agent, bool *out_did);
// In attempt.c.
void attempt_start(
	struct agent_session *agent); // the one that the lease names, in a task of its own
void attempt_look(struct agent_session *agent, struct backend_view *out); // bounded; faults apply
// In remove.c: the next step of a deletion. *out_did: something was done.
fallible remove_step(struct agent_session *agent, bool *out_did);
// In table.c. What was promised to its cold start is given back.
void agent_unreserve(struct agent_session *agent);
void agent_note_alive(struct agent_session *agent); // a sign of life of its runner
// By its id, as `who` names it; NULL: none.
struct agent_session *agents_named(const struct agent_sessions *agents, const struct who *who,
				   struct str id);
// What a session is called among those of all tenants: the operator's by its id,
// another's TENANT__ID, which no id can look like. False: no id is that long.
#define AGENT_KEY_MAX (WHO_TENANT_MAX + 2 + AGENT_ID_MAX)
bool agent_key(const char *tenant, struct str id, char out[AGENT_KEY_MAX + 1]);
// The other way round: within the key.
const char *agent_id_of(const char *tenant, const char *key);
// Into the table, with its id and aliases reserved; false: one of them is taken.
struct agent_session *agent_new(struct agent_sessions *agents);
bool agent_list(struct agent_session *agent);
// Out of sight and, with the last holder, gone.
void agent_unlist(struct agent_session *agent);
// The key of an alias: unique per owner.
void agent_alias_key(const char *tenant, const struct owner *owner, struct str alias,
		     struct buf *out);
fallible agent_absent(struct str id);
fallible agent_starting(void);
fallible agent_draining(void);
