// The parameters of a watch, as a request body gives them.
#pragma once

#include "toolbox/path_arg.h"

#define WATCH_SETUP_MS 10000

struct watch_ask {
	const char *root; // absolute: /workspace or beneath
	uint32_t flags;	  // of files_watch()
	uint32_t events;  // bit mask by enum fileop_event_type
	const char *const *include, *const *exclude;
};

// Reads the fields. INVALID bad_field; FORBIDDEN permission_denied for another directory.
// Everything is copied: the json may be freed afterwards.
fallible watch_ask_read(struct path_arg *path_arg, const struct json *json, struct watch_ask *out);
// Whether the client asked for this event.
bool watch_ask_wants(const struct watch_ask *ask, const struct fileop_event *event);
const char *watch_event_word(enum fileop_event_type type);
// Sets up the watch, within WATCH_SETUP_MS.
fallible watch_ask_begin(struct path_arg *path_arg, const struct watch_ask *ask,
			 struct files_walk **out);
