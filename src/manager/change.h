// A sandbox that exists, changed: its labels, the environment of what is started in it from now on,
// and its terms.
#pragma once

#include "manager/table.h"
#include "types/who.h"

// Reads {labels, env, sleepAfter, keepAlive, containerTimeouts, baseUrl}: all of it holds, or
// nothing is changed. INVALID unknown_field, bad_field, bad_env; CONFLICT base_url_set; NOT_FOUND
// no_sandbox. The record is borrowed until the caller's next wait.
fallible change_box(struct manager *manager, const struct who *who, struct str key,
		    const struct json *object, const struct record **out);
// Only {sleepAfter, keepAlive, containerTimeouts, baseUrl}; all else of the object is passed over.
fallible change_retention(struct manager *manager, const struct who *who, struct str key,
			  const struct json *object);
