// Sessions: shells of one box that keep their state between commands. Foreground commands of a
// session run one after another, in order of arrival; sessions run in parallel.
#pragma once

#include "box/exec.h"
#include "types/env_map.h"

#define SESSION_MAX 256			   // of one box
#define SESSION_ID_MAX 256		   // bytes
#define SESSION_WAITING_MAX 1024	   // queued commands of one session
#define SESSION_NONE "__DISABLE_SESSION__" // as an id: no session
#define SESSION_DEFAULT "default"

struct session;

// Parameters of a session's shells. Everything is copied.
struct session_spec {
	const char *const *env; // NULL-ended "NAME=value", complete
	uint32_t own;		// the first `own` of them are the session's, the rest the box's
	const char *cwd;	// $HOME if it cannot be entered
	uint64_t timeout_ms;	// of commands that name none; 0: none
	uint64_t output_cap;	// bytes kept of one command
	uint32_t cpu_milli;
};

// Creates a session and waits until its shell is up. The caller holds it. CONFLICT session_exists:
// its shell lives (a session whose shell has ended is replaced); INVALID blank_session, bad_field;
// EXHAUSTED too_many_sessions; NOT_OFFERED no_bash; errors of exec_start().
fallible session_create(struct box *box, struct str id, const struct session_spec *spec,
			struct session **out);
// Finds or creates a session. Does not wait: if its shell cannot start, the first command fails.
// The caller holds it.
fallible session_take(struct box *box, struct str id, const struct session_spec *spec,
		      struct session **out);
// NULL: none. Held.
struct session *session_find(struct box *box, struct str id);
void session_unref(struct session *session); // the caller's reference
static inline void auto_session_(struct session **session)
{
	if (*session)
		session_unref(*session);
}
#define auto_session on_exit_call(auto_session_) struct session *

const char *session_id(const struct session *session);
// Its directory after the last command, or at its start.
const char *session_cwd(const struct session *session);
// True if its shell lives or is being started.
bool session_is_alive(const struct session *session);
// Live sessions, oldest first; `each` must not wait.
void session_each(struct box *box, void (*each)(struct session *session, void *arg), void *arg);

// Ends a session: after the commands queued before, its background jobs are killed and its shell
// ends. Later commands end as destroyed. Returns when it is gone. `now`: kills what runs at once.
fallible session_delete(struct session *session, bool now);

// A foreground command. Texts are borrowed until session_run() returns.
struct session_job {
	struct str command;
	const char *cwd;	   // for this command only; NULL: the session's
	const struct env_map *env; // for this command only; may be NULL
	uint64_t timeout_ms;	   // 0: the session's
	uint64_t cpu_ms;	   // 0: none
	// Its id and command, for a record that a later daemon reads; the caller seals the tape at
	// the end. NULL: none is kept.
	const struct tape_label *record;
};

enum session_end {
	SESSION_DONE,	    // the command ended: exit_code
	SESSION_TIMED_OUT,  // its time limit fired
	SESSION_TERMINATED, // its shell ended: exit_code is the shell's
	SESSION_DESTROYED,  // the session was deleted before or during its run
};

struct session_result {
	enum session_end end;
	enum ending ending; // the cause of its end
	int exit_code;
	int64_t duration_ms;
	uint64_t timeout_ms; // its time limit; 0: none
	bool stdout_truncated, stderr_truncated;
	bool restarted; // the shell was killed and replaced: its state is lost
	bool has_jobs;	// background jobs were started: bash reports them on stderr
};

struct session_run;

// Queues the command. It runs to its end even if no caller waits, unless it is dropped before its
// turn. TOO_LARGE command_too_large, EXHAUSTED session_busy.
fallible session_run(struct session *session, const struct session_job *job,
		     struct session_run **out);
// Waits for its end. An error: the shell could not be started, or the box ended.
fallible session_run_wait(struct session_run *run, int64_t deadline, struct session_result *out);
// Its output, verbatim, with the job messages of an interactive bash on stderr (protocol/shell.h
// has the filter). Complete once session_run_wait() has returned; borrowed while the run is held.
struct tape *session_run_tape(struct session_run *run);
void session_run_drop(struct session_run *run);
static inline void auto_session_run_(struct session_run **run)
{
	if (*run)
		session_run_drop(*run);
}
#define auto_session_run on_exit_call(auto_session_run_) struct session_run *

// Takes a place in the queue for work outside the shell: later commands wait until
// session_unlock(). Needs no shell. Waits for its turn; GONE session_destroyed, EXHAUSTED
// session_busy, CANCELLED (then there is nothing to unlock).
fallible session_lock(struct session *session, struct session_run **out);
void session_unlock(struct session_run *lock);
// True if the queue is empty: session_lock() would not wait.
bool session_is_free(const struct session *session);

// Output of background jobs between commands; it has no end while the session lives.
struct tape *session_tape(struct session *session); // borrowed while the session is held

// A script that gives another bash the state of this session: variables, functions, aliases,
// options, umask, directory. Waits for the commands before it; empty for a session that has run
// nothing. See shell_wrap() in protocol/shell.h. TOO_LARGE state_too_large.
#define SESSION_PRELUDE_MAX (8 << 20)
fallible session_prelude(struct session *session, struct buf *out);
// The part of it that survives execve, however large the rest is. Waits and fails as above.
fallible session_exports(struct session *session, struct buf *out);
// Its state as printed by its shell (protocol/shell_state.h). Waits and fails as above. Empty: too
// large to compare; use session_prelude().
fallible session_state(struct session *session, struct buf *out);
// The environment that its shell was started with, NULL-ended.
const char *const *session_env(const struct session *session);

// Sets `name`, or with a NULL value unsets it, in every session before its next command.
void session_set_env(struct box *box, struct str name, const char *value);
// The same for the box's environment: sessions that were created with a value of their own, or have
// changed it, keep theirs.
void session_offer_env(struct box *box, struct str name, const char *value);
// Waits until the changes are on disk for the next daemon.
void sessions_settle(struct box *box);
