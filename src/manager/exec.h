// Runs commands and shell sessions (box/session.h) in a box, with its environment and limits.
#pragma once

#include "manager/box_ref.h"

// A command as the request gives it.
struct manager_exec_spec {
	const char *command;	   // for bash -c; NULL: argv
	const char *const *argv;   // NULL-ended
	const struct env_map *env; // on top of the box's environment; may be NULL
	const char *cwd;	   // NULL: the box's directory; a relative path starts there
	const char *user;	   // NULL: the box's user
	struct str stdin_bytes;	   // at == NULL: nothing to read
	uint64_t cpu_ms, wall_ms;  // 0: the box's limit alone
};

// The command with the box's settings added: cove's variables, then the box's, then the request's;
// the tighter of the request's limits and the box's.
struct exec_env {
	struct exec_spec spec; // borrows from the manager_exec_spec and from below
	struct env_map env_map;
	char **env;
	char *cwd;
	const char *argv[2];
};
// The smaller of two limits; 0: none.
uint64_t exec_tighter(uint64_t a, uint64_t b);
void exec_env_make(const struct box_ref *ref, const struct manager_exec_spec *run,
		   struct exec_env *out);
void exec_env_done(struct exec_env *exec_env);
#define auto_exec_env on_exit_call(exec_env_done) struct exec_env

// A manager_exec keeps its box in memory and its output readable until it is dropped; the command
// itself runs on.
struct manager_exec;

// Waits until the command runs. NOT_FOUND no_sandbox; UNAVAILABLE box_starting; GONE box_lost; and
// the errors of exec_start(). The spec may be freed on return.
fallible manager_exec_start(struct manager *manager, const struct who *who, struct str key,
			    const struct manager_exec_spec *spec, struct manager_exec **out);
void manager_exec_drop(struct manager_exec *run);
static inline void auto_manager_exec_(struct manager_exec **run)
{
	if (*run)
		manager_exec_drop(*run);
}
#define auto_manager_exec on_exit_call(auto_manager_exec_) struct manager_exec *

int manager_exec_pid(const struct manager_exec *run);
uint64_t manager_exec_wall_ms(const struct manager_exec *run); // the limit in force; 0: none
struct tape *manager_exec_tape(const struct manager_exec *run);
struct entry *manager_exec_entry(const struct manager_exec *run); // of its box; borrowed
// Waits for the end of the command.
fallible manager_exec_wait(struct manager_exec *run, struct exec_result *out);
// After its end: adds its output, of each stream as much as the buffer's ceiling takes. Waits.
fallible manager_exec_gather(struct manager_exec *run, struct buf *out, struct buf *err);

// --------------------------------------------------------------------------------- shell sessions

struct shells_spec {
	const struct env_map *env; // on top of the box's environment; may be NULL
	const char *cwd;	   // NULL: /workspace
	uint64_t timeout_ms;	   // of each command that sets none; 0: none
};
// As session_create() and session_take(). The caller holds *out, and keeps the box reference as
// long.
fallible shells_create(const struct box_ref *ref, struct str id, const struct shells_spec *spec,
		       struct session **out);
fallible shells_take(const struct box_ref *ref, struct str id, struct session **out);

// A command for a session, with the limits of its box. Borrows from `run`.
struct session_job shells_job(const struct box_ref *ref, const struct manager_exec_spec *run);
// Logs a limit that ended the command.
void shells_report(const struct box_ref *ref, const struct session_result *result);

// Changes the box's environment: names of the object are set, names with null removed, for commands
// started later and for running sessions before their next command. All of it or nothing: INVALID
// bad_env, bad_field.
fallible shells_change_env(const struct box_ref *ref, const struct json *object);
// The second half of it: `env` is the box's new environment; only the names of the object are used.
void shells_set_env(struct box *box, const struct env_map *env, const struct json *object);
