// Shell sessions of a box (box/session.h), started with the box's environment and limits.
#pragma once

#include "manager/box_ref.h"

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
void shells_tell_env(struct box *box, const struct env_map *env, const struct json *object);
