// Sessions: shells of one box that keep their state from one command to the next. Foreground
// commands of a session run one after another, in order of arrival; sessions run side by side.
#pragma once

#include "box/exec.h"
#include "types/env_map.h"

#define SESSION_MAX 256			   // of one box
#define SESSION_ID_MAX 256		   // bytes
#define SESSION_WAITING_MAX 1024	   // commands that wait for one session
#define SESSION_NONE "__DISABLE_SESSION__" // as an id: no session at all
#define SESSION_DEFAULT "default"

struct session;

// What a shell starts with. All of it is copied.
struct session_spec {
	const char *const *env; // NULL-ended "NAME=value", complete
	uint32_t own;		// so many of them, the first ones, are the session's, not the box's
	const char *cwd;	// one that cannot be entered becomes $HOME
	uint64_t timeout_ms;	// of each command that names none; 0: none
	uint64_t output_cap;	// bytes that are kept of one command
	uint32_t cpu_milli;
};

// A new one; waits until its shell is up. The caller holds it. CONFLICT session_exists: its shell
// lives (one whose shell has ended is replaced); INVALID blank_session, bad_field; EXHAUSTED
// too_many_sessions; NOT_OFFERED no_bash; and what exec_start() says.
fallible session_create(struct box *box, struct str id, const struct session_spec *spec,
			struct session **out);
// The one of that id, made when there is none or its shell has ended. Does not wait: a shell that
// cannot be started is the failure of the first command. The caller holds it.
fallible session_take(struct box *box, struct str id, const struct session_spec *spec,
		      struct session **out);
// NULL: there is none. Held.
struct session *session_find(struct box *box, struct str id);
void session_unref(struct session *session); // the caller's share
static inline void auto_session_(struct session **session)
{
	if (*session)
		session_unref(*session);
}
#define auto_session on_exit_call(auto_session_) struct session *

const char *session_id(const struct session *session);
// Where it stood after its last command, and where a new one will stand.
const char *session_cwd(const struct session *session);
// Its shell lives, or is about to.
bool session_is_alive(const struct session *session);
// Those that live, oldest first: calls `each` for every one; it must not wait.
void session_each(struct box *box, void (*each)(struct session *session, void *arg), void *arg);

// Ends a session: after the foreground commands that came before, its background jobs are killed
// and its shell ends. Commands that came later end as destroyed. Returns when it is gone. `now`:
// nothing is waited for, what runs is killed.
fallible session_delete(struct session *session, bool now);

// A foreground command. The texts are borrowed until session_run() returns.
struct session_job {
	struct str command;
	const char *cwd;	   // for this command only; NULL: where the session stands
	const struct env_map *env; // for this command only; may be NULL
	uint64_t timeout_ms;	   // 0: the session's
	uint64_t cpu_ms;	   // 0: none
};

enum session_end {
	SESSION_DONE,	    // the command ended: exit_code
	SESSION_TIMED_OUT,  // it was ended by its time-out
	SESSION_TERMINATED, // its shell ended: exit_code is the shell's
	SESSION_DESTROYED,  // the session was deleted before it could run, or under it
};

struct session_result {
	enum session_end end;
	enum ending ending; // the word for what ended it
	int exit_code;
	int64_t duration_ms;
	uint64_t timeout_ms; // the one that held; 0: none
	bool stdout_truncated, stderr_truncated;
	bool restarted; // the shell had to be replaced: its state is lost
	bool has_jobs;	// background jobs were started: bash tells of them on stderr
};

struct session_run;

// Puts the command in line. It runs to its end whoever waits for it, unless it is dropped before
// its turn. TOO_LARGE command_too_large, EXHAUSTED session_busy.
fallible session_run(struct session *session, const struct session_job *job,
		     struct session_run **out);
// Waits for its end. An error: the shell could not be started, or the box ended.
fallible session_run_wait(struct session_run *run, int64_t deadline, struct session_result *out);
// Its output, verbatim, with the remarks of an interactive bash on stderr (protocol/shell.h has the
// filter). Whole once session_run_wait() has returned; borrowed while the run is held.
struct tape *session_run_tape(struct session_run *run);
void session_run_drop(struct session_run *run);
static inline void auto_session_run_(struct session_run **run)
{
	if (*run)
		session_run_drop(*run);
}
#define auto_session_run on_exit_call(auto_session_run_) struct session_run *

// Its place in the line for something that is done from outside, as a command would do it: whoever
// comes later waits until session_unlock(). Needs no shell. Waits for its turn; GONE
// session_destroyed, EXHAUSTED session_busy, CANCELLED (then there is nothing to unlock).
fallible session_lock(struct session *session, struct session_run **out);
void session_unlock(struct session_run *lock);
// Nobody is before it in the line: session_lock() would not wait.
bool session_is_free(const struct session *session);

// What background jobs wrote between the commands; it has no end while the session lives.
struct tape *session_tape(struct session *session); // borrowed while the session is held

// A script by which another bash comes to stand where this session stands: variables, functions,
// aliases, options, umask, directory. Waits for the commands before it; empty for a session that
// has run nothing. It goes in front of what that bash shall run: see shell_wrap() in
// protocol/shell.h. TOO_LARGE state_too_large.
#define SESSION_PRELUDE_MAX (8 << 20)
fallible session_prelude(struct session *session, struct buf *out);
// The part of it that outlives execve, however large the rest is. Waits and fails as above.
fallible session_exports(struct session *session, struct buf *out);
// Its state as its shell tells it (protocol/shell_state.h). Waits and fails as above. Empty: it is
// too large to be told apart from another's; session_prelude() has it.
fallible session_state(struct session *session, struct buf *out);
// The environment that its shell was started with, NULL-ended; for those who start another.
const char *const *session_env(const struct session *session);

// `name` is set, or with a NULL value unset, in every session before its next command.
void session_set_env(struct box *box, struct str name, const char *value);
// The same of the environment of the box: sessions that were made with a value of their own, or
// have changed it themselves, keep theirs.
void session_offer_env(struct box *box, struct str name, const char *value);
// Waits until the changes are on disk, so that the next daemon knows of them.
void sessions_settle(struct box *box);
