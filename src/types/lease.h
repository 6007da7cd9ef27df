// The lease: the record of which runner of an agent session may exist. Transitions are a pure
// function, without clock, disk or process. The caller commits the new lease first and executes
// `todo` afterwards, so that a crash at any point leaves a record that is true or too cautious,
// never one that has forgotten a runner. Times are wall clock in ms. One state value, no flags
// beside it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/str.h"

#define LEASE_INSTANCE_LEN 41 // "instance_" and 32 hex digits
#define LEASE_ATTEMPT_LEN 32  // hex digits
#define LEASE_RUN_LEN 36      // "run_" and 32 hex digits
#define LEASE_BOOT_LEN 36
#define LEASE_ERROR_MAX 160
#define LEASE_ATTEMPTS_MAX 5
#define LEASE_VERSION 1 // of the format of lease_write()

// clang-format off
#define LEASE_STATES(X) \
	X(NONE, "none") X(STARTING, "starting") X(READY, "ready") X(ACTIVE, "active") \
	X(WARM, "warm") X(STOP_NEEDED, "stop_needed") X(STOPPING, "stopping") \
	X(QUARANTINED, "quarantined")
#define LEASE_REASONS(X) \
	X(NO_REASON, "") \
	X(UNEXPECTED_RUNNER, "unexpected-runner") X(OBSERVATION_FAILED, "observation-failed") \
	X(STARTUP_FAILED, "startup-failed") X(READINESS_FAILED, "readiness-failed") \
	X(TERMINAL_FAILED, "terminal-failed") X(TERMINAL_INTERRUPTED, "terminal-interrupted") \
	X(UNHEALTHY, "unhealthy-runner") X(USER_INTERRUPT, "user-interrupt") \
	X(KEEP_WARM_EXPIRED, "keep-warm-expired") X(SESSION_DELETE, "session-delete") \
	X(IDLE_TIMEOUT, "idle-timeout") X(VERSION_MISMATCH, "version-mismatch") \
	X(RECORD_UNREADABLE, "record-unreadable") X(DRAIN, "drain") \
	X(EXECUTION_ENDED, "execution-ended")
// clang-format on
enum lease_state {
#define X(name, word) LEASE_##name,
	LEASE_STATES(X)
#undef X
		LEASE_STATE_COUNT
};
enum lease_reason {
#define X(name, word) LEASE_FOR_##name,
	LEASE_REASONS(X)
#undef X
		LEASE_REASON_COUNT
};
const char *lease_state_word(enum lease_state state);
const char *lease_reason_word(enum lease_reason reason); // "": none

// Location of the runner, as far as known. A pid alone proves nothing.
struct lease_place {
	char sandbox[ID_BOX_LEN + 1];
	char boot[LEASE_BOOT_LEN + 1];
	uint32_t exec_cgroup; // 1 + the number of its exec cgroup; 0: unknown
	int pid;	      // in the sandbox's pid namespace; 0: unknown
	uint64_t start;
	uint64_t program; // a fingerprint of its executable; 0: unknown
};

struct lease {
	enum lease_state state;
	uint64_t next_generation; // in every state; never decreases
	// STARTING to WARM; afterwards the runner that must be gone.
	char instance[LEASE_INSTANCE_LEN + 1]; // "": none
	uint64_t generation;
	struct lease_place place;
	int64_t deadline_ms; // STARTING, READY, WARM; else 0
	// ACTIVE: the fence of its run. The generation of runs outlives them.
	char run[LEASE_RUN_LEN + 1];
	uint64_t run_generation, connection;
	// STOP_NEEDED, STOPPING, QUARANTINED
	bool whole_session; // the target: everything of the session, or the instance alone
	enum lease_reason reason;
	int64_t requested_ms, next_attempt_ms;
	uint32_t attempts;
	char error[LEASE_ERROR_MAX]; // the last one; "": none
	char attempt[LEASE_ATTEMPT_LEN + 1];
	int64_t attempt_ms;		  // STOPPING: when it began
	int64_t exhausted_ms, recheck_ms; // QUARANTINED; recheck 0: only when a user asks
};

// The result of observing a session's runners.
enum lease_seen {
	LEASE_SEES_NOTHING, // none, for certain
	LEASE_SEES_MATCH,   // exactly one, the leased one
	LEASE_SEES_OTHER,   // several, or a wrong one
	LEASE_SEES_FAILED,  // the observation failed: proves nothing
	LEASE_SEEN_COUNT
};

enum lease_event_kind {
	LEASE_WANTED,	     // a run needs a runner: seen, fresh instance
	LEASE_HEALTHY,	     // the runner answers with the leased identity: connection
	LEASE_LAUNCH_FAILED, // error
	LEASE_UNREADY,	     // it started, but its identity is wrong: error, reason or none
	LEASE_ACCEPTED,	     // the runner took a run: run, connection
	LEASE_COMPLETED,     // the last run ended well
	LEASE_RUN_FAILED,    // the run failed, or the runner broke the protocol
	LEASE_RUN_CUT,	     // the run ended as interrupted
	LEASE_SICK,	     // no ping, no output, grace over: error
	LEASE_INTERRUPT,     // by the user
	LEASE_STOP,	     // deletion, sweep: reason
	LEASE_TIME,	     // time has passed: has_accepted, has_queued, fresh attempt
	LEASE_STOPPED,	     // the result of an attempt: attempt, seen, error
	LEASE_FORCE,	     // a user's action: check again at once
	LEASE_RECHECKED,     // the result of that check: seen
	LEASE_UNREADABLE,    // the stored record does not parse
	LEASE_FOUND,	     // the observation of reconciliation at start
	LEASE_EVENT_COUNT
};

struct lease_event {
	enum lease_event_kind kind;
	int64_t now_ms;
	enum lease_seen seen;
	const char *instance; // a fresh one
	const char *attempt;  // TIME: a fresh one; STOPPED: the attempt that ended
	const char *run;
	uint64_t connection;
	enum lease_reason reason;
	const char *error; // may be NULL
	bool has_accepted; // an accepted run has not ended
	bool has_queued;   // a run waits for a runner
};

enum lease_todo {
	LEASE_DO_LAUNCH = 1,	 // start the leased instance
	LEASE_DO_ATTACH = 2,	 // connect to the running one, until it is healthy
	LEASE_DO_STOP = 4,	 // one attempt, under its id
	LEASE_DO_LOOK = 8,	 // observe only; then LEASE_RECHECKED
	LEASE_DO_DRAIN = 16,	 // queued runs may proceed: they want a runner
	LEASE_DO_FAIL_RUNS = 32, // accepted runs have lost their runner
	LEASE_DO_ALERT = 64,
	LEASE_DO_BLOCKED_CALL = 128, // queued work waits for the lease's deadline
};

struct lease_step {
	int row;       // of the table of transitions; 0: the event has no effect here
	bool changed;  // commit before executing todo
	unsigned todo; // bits of enum lease_todo
};

// The initial lease: no runner ever ran.
void lease_init(struct lease *lease);
// Copies `from` and applies the event; *out may be `from`.
struct lease_step lease_handle(const struct lease *from, const struct lease_event *event,
			       struct lease *out);

bool lease_is_owned(const struct lease *lease);	 // STARTING to WARM
bool lease_is_fenced(const struct lease *lease); // nothing may be launched
// When the lease next needs LEASE_TIME; 0: never.
int64_t lease_deadline(const struct lease *lease);
// A clock that was set back must not delay a deadline by more than its timer.
void lease_clamp(struct lease *lease, int64_t now_ms);

// For the store. False: malformed; *out then only has next_generation, if readable.
void lease_write(struct buf *buf, const struct lease *lease);
bool lease_read(struct str text, struct lease *out);

void lease_new_instance(char out[LEASE_INSTANCE_LEN + 1]);
void lease_new_attempt(char out[LEASE_ATTEMPT_LEN + 1]);
bool lease_is_instance(struct str text);
