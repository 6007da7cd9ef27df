// Changes to an existing sandbox: its labels, the environment of commands started from now on, its
// retention settings.
#pragma once

#include "manager/table.h"
#include "types/who.h"

// Reads {labels, env, sleepAfter, keepAlive, containerTimeouts, baseUrl}, or {limits} alone (see
// manager/limits.h), and applies all of it or nothing. INVALID unknown_field, bad_field, bad_env;
// CONFLICT base_url_set; NOT_FOUND no_sandbox. The record is borrowed until the caller's next wait.
fallible change_box(struct manager *manager, const struct who *who, struct str key,
		    const struct json *object, const struct record **out);
// Sets a label of cove's own, or removes it (`value` NULL). Durable on return. NOT_FOUND
// no_sandbox. The record is borrowed until the caller's next wait.
fallible change_own_label(struct manager *manager, const struct who *who, struct str key,
			  const char *name, const char *value, const struct record **out);
// Only {sleepAfter, keepAlive, containerTimeouts, baseUrl}; other fields are ignored.
fallible change_retention(struct manager *manager, const struct who *who, struct str key,
			  const struct json *object);
