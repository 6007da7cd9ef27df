// Sessions of a box, on somebody's behalf (box/session.h): what their shells start with comes from
// the box.
#pragma once

#include "manager/box_ref.h"

struct shells_spec {
	const struct env_map *env; // on top of the box's own; may be NULL
	const char *cwd;	   // NULL: /workspace
	uint64_t timeout_ms;	   // of each command that names none; 0: none
};
// As session_create() and session_take(); the caller holds *out, and keeps the visit as long.
fallible shells_create(const struct box_ref *ref, struct str id, const struct shells_spec *spec,
		       struct session **out);
fallible shells_take(const struct box_ref *ref, struct str id, struct session **out);

// A command for a session, with the limits of its box. Borrows from `use`.
struct session_job shells_job(const struct box_ref *ref, const struct manager_exec_spec *run);
// Tells the log when a limit ended it.
void shells_report(const struct box_ref *ref, const struct session_result *result);

// The environment of the box from now on: names of the object are set, those with null are taken
// away, for whatever is started later and for living sessions before their next command. All of it
// or nothing: INVALID bad_env, bad_field.
fallible shells_change_env(const struct box_ref *ref, const struct json *object);
// The second half of it: `env` is what the box has now, of the object only the names count.
void shells_tell_env(struct box *box, const struct env_map *env, const struct json *object);
