// The state of a session, shared by the session files.
#pragma once

#include "box/bash.h"
#include "box/session.h"

#define SESSION_ORPHANS_MAX 8 // ended shells whose pipes a process still holds

struct sessions {
	struct map *by_id;
	struct link all; // in order of creation
	bool over;	 // the box has ended
	size_t kept;	 // bytes of cached states
};

struct session {
	struct box *box;  // held
	struct link link; // sessions->all
	int refs;	  // the table, callers, runs, tasks
	bool listed;
	bool starting; // a task starts its shell
	char *id;
	char **env;   // NULL-ended; of new shells
	uint32_t own; // the first ones: changes of the box's environment do not affect them
	char *start_cwd;
	uint64_t timeout_ms, output_cap;
	uint32_t cpu_milli;
	uint32_t state_file; // its number (session_file.c); 0: the next daemon will not know the
			     // session
	bool state_file_stale, state_file_busy;
	struct bash *shell; // NULL: none
	struct link orphans;
	uint32_t orphan_count;
	bool ready; // the shell answered the greeting
	bool fresh; // it has run nothing since its start
	char *cwd;
	uint32_t job; // the last background job
	struct tape *tape;
	struct buf changes; // of the environment, sent before the next command
	uint64_t turns;	    // counts events that may have changed its state
	struct buf prelude; // as of turn `dumped`; empty: too large to be cached
	uint64_t dumped;
	struct buf state; // the same, for a prewarmed shell, as of turn `stated`
	uint64_t stated;
	bool state_large;	 // too large for that
	int64_t asked_at;	 // loop time of the last request for it
	struct timer foresee;	 // renews it after a command
	struct session_run *run; // running
	struct link queue;
	uint32_t waiting;
	struct err *failure;	  // of the last start
	struct condition changed; // ready, or failed to start
	struct deferred free_later;
};

struct orphan {
	struct link link;
	struct session *session;
	struct bash *shell;
};

enum run_kind { RUN_COMMAND, RUN_ASIDE, RUN_LOCK, RUN_DELETE };

struct session_run {
	struct session *session; // held
	struct link link;	 // session->queue
	int refs;		 // the holder, the session
	enum run_kind kind;
	bool held; // by its caller
	bool done;
	struct buf words; // all lines but the last
	bool has_cwd;
	struct tape *tape;
	uint64_t timeout_ms, cpu_ms;
	struct timer timer;
	bool stopping; // a task ends it
	bool told_end; // the shell reported its end
	enum ending cause;
	int64_t begun_us;
	uint64_t begun_boot_ms, oom_kills;
	uint32_t job;  // last background job before it
	uint64_t turn; // of the session
	struct session_result result;
	struct err *failure;
	struct condition condition;
};

void session_ref(struct session *session);
char **session_copy_env(const char *const *env);
void session_start(struct session *session); // starts its shell, unless it has one
// Starts the next queued run, and a shell for it if need be.
void session_pump(struct session *session);
// The shell of a start task, or its error (taken over).
void session_attach(struct session *session, struct bash *shell);
void session_not_started(struct session *session, struct err *err);
// Ends all queued runs: with `err` (copied), or as destroyed if NULL.
void session_fail_all(struct session *session, const struct err *err);
// The same, and the running one: its shell will not report its end any more.
void session_abandon(struct session *session, const struct err *err);
// In session_table.c.
void session_unlist(struct session *session);
void session_configure(struct session *session,
		       const struct session_spec *spec); // replaces its parameters
// Caches `fresh` in `text`, a buffer of the session. False: too large, and not kept.
bool session_keep_text(struct session *session, struct buf *text, struct str fresh);
void state_file_remove(struct session *session);

struct session_run *run_new(struct session *session, enum run_kind kind);
void run_queue(struct session_run *run); // the queue takes a reference
fallible run_await(struct session_run *run, int64_t deadline);
// Breaks a lock: its holder continues without it.
void run_break_lock(struct session *session);

// In session_file.c: the state file. Writes it and waits until it is there. A failing disk is
// logged: the session then ends with the daemon.
void state_file_write(struct session *session);
// The same, in the background; the last state counts.
void state_file_touch(struct session *session);
void state_file_erase(struct session *session); // removes it and waits for that

// Reads a state file, on the heap, its texts inside. NULL: not a state file of ours. Waits for the
// disk.
struct state_file {
	struct str id;
	struct session_spec spec;
	struct str changes;
	const char **env;
	char *bytes;
};
fallible state_file_read(struct box *box, uint32_t number, struct state_file **out);
void state_file_free(struct state_file *state_file);
