// The state of a session, shared by the session files.
#pragma once

#include "box/repl.h"
#include "box/session.h"

#define SESSION_WORDS_MAX (16 << 20)  // 1 MiB of quotes, escaped, and the lines around it
#define SESSION_KEPT_MAX (256 * 1024) // bytes of a cached state

struct session {
	struct repl repl;
	uint32_t own; // the first variables: changes of the box's environment do not affect them
	struct link orphans;
	uint32_t orphan_count;
	bool fresh;	    // its shell has run nothing since its start
	struct buf changes; // of the environment, sent before the next command
	uint64_t turns;	    // counts events that may have changed its state
	struct buf prelude; // as of turn `dumped`; empty: too large to be cached
	uint64_t dumped;
	struct buf state; // the same, for a prewarmed shell, as of turn `stated`
	uint64_t stated;
	bool state_large;     // too large for that
	int64_t asked_at;     // loop time of the last request for it
	struct timer foresee; // renews it after a command
};

enum session_run_kind { RUN_COMMAND, RUN_ASIDE, RUN_LOCK, RUN_DELETE };

struct session_run {
	struct repl_run run;
	enum session_run_kind kind;
	bool has_cwd;
	uint64_t cpu_ms;
	enum ending cause;
	int64_t begun_us;
	uint64_t begun_boot_ms, oom_kills;
	uint32_t job;  // last background job before it
	uint64_t turn; // of the session
	struct session_result result;
};

static inline struct session *session_of(const struct session_run *run)
{
	return (struct session *)run->run.repl;
}

// In session_interrupt.c: the end of the active run.
bool session_run_is_over(const struct session_run *run); // its end was reported
void session_run_finish(struct session_run *run);
void session_run_report(struct session_run *run); // finishes it, unless a task stops it
void session_stop(struct session_run *run, enum ending cause);
// In session.c. The run is held by the caller, and not queued yet.
struct session_run *session_run_new(struct session *session, enum session_run_kind kind);
fallible session_await_ready(struct session *session);
// Replaces a cached text. `text` is a buffer of the session, which is listed.
void session_forget_text(struct session *session, struct buf *text);
