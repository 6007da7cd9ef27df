// The state of a session, for the files of this room that make and drive it.
#pragma once

#include "box/bash.h"
#include "box/session.h"

#define SESSION_ORPHANS_MAX 8 // shells that have ended and whose pipes somebody holds

struct sessions {
	struct map *by_id;
	struct link all; // in order of their making
	bool over;	 // the box has ended
	size_t kept;	 // bytes of states that are kept until their session changes
};

struct session {
	struct box *box;  // held
	struct link link; // sessions->all
	int refs;	  // the table, the callers, the runs, the tasks
	bool listed;
	bool starting; // a task sees to it
	char *id;
	char **env;   // NULL-ended; what a shell starts with
	uint32_t own; // of them, the first ones: no change of the box's takes them
	char *start_cwd;
	uint64_t timeout_ms, output_cap;
	uint32_t cpu_milli;
	uint32_t state_file; // its number (card.c); 0: another daemon will not know of it
	bool state_file_stale, state_file_busy;
	struct bash *shell; // NULL: none lives
	struct link orphans;
	uint32_t orphan_count;
	bool ready; // the shell has answered the greeting
	bool fresh; // it has run nothing since
	char *cwd;
	uint32_t job; // the last background job
	struct tape *tape;
	struct buf changes; // of the environment, before the next command
	uint64_t turns;	    // counts what may have changed its state
	struct buf prelude; // of the turn when it was dumped; empty: it was too large to be kept
	uint64_t dumped;
	struct buf state; // the same, as it is told for a prewarmed shell
	uint64_t stated;
	bool state_large;	 // it was too large for that
	int64_t asked_at;	 // for it, last; loop time
	struct timer foresee;	 // asks again after a command
	struct session_run *run; // at work
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
	bool held; // by whoever asked for it
	bool done;
	struct buf words; // all but the last line
	bool has_cwd;
	struct tape *tape;
	uint64_t timeout_ms, cpu_ms;
	struct timer timer;
	bool stopping; // a task ends it
	bool told_end; // the shell has told its end
	enum ending cause;
	int64_t begun_us;
	uint64_t begun_boot_ms, oom_kills;
	uint32_t job;  // the last background job before it
	uint64_t turn; // of the session
	struct session_result result;
	struct err *failure;
	struct condition condition;
};

void session_ref(struct session *session);
char **session_copy_env(const char *const *env);
void session_start(struct session *session); // its shell, unless it has one
// Starts the next in line, and a shell for it if need be.
void session_pump(struct session *session);
// The shell that a start task has made, or why it made none (taken over).
void session_attach(struct session *session, struct bash *shell);
void session_not_started(struct session *session, struct err *err);
// Everything in line ends: with `err` (copied), or as destroyed when it is NULL.
void session_fail_all(struct session *session, const struct err *err);
// The same of the one at work: its shell will not tell its end any more.
void session_abandon(struct session *session, const struct err *err);
// In session_table.c.
void session_unlist(struct session *session);
void session_dress(struct session *session, const struct session_spec *spec); // anew
// `text` is of the session. False: it is too large, and is not kept.
bool session_keep_text(struct session *session, struct buf *text, struct str fresh);
void state_file_remove(struct session *session);

struct session_run *run_new(struct session *session, enum run_kind kind);
void run_queue(struct session_run *run); // a share of the session's
fallible run_await(struct session_run *run, int64_t deadline);
// Whoever holds the lock goes on without it.
void run_break_lock(struct session *session);

// In session_file.c: what a shell of a session is started with, on disk, so that another daemon can
// go on with it. Writes it and waits until it is there. A disk that fails is logged: the session
// then ends with the daemon.
void state_file_write(struct session *session);
// The same, in the background: the last one counts.
void state_file_touch(struct session *session);
void state_file_erase(struct session *session); // the same, and waits until it is gone

// What the card of that number says, on the heap, its texts inside. NULL: it is no card of ours.
// Waits for the disk.
struct state_file {
	struct str id;
	struct session_spec spec;
	struct str changes;
	const char **env;
	char *bytes;
};
fallible state_file_read(struct box *box, uint32_t number, struct state_file **out);
void state_file_free(struct state_file *state_file);
