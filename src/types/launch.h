// The command that a sandbox runs at each start, and the check after which it counts as ready:
// `start` and `ready` of a create, a template and a pool. Kept as the text of a JSON object. No
// I/O.
#pragma once

#include <stdint.h>

#include "codec/json.h"

struct launch {
	struct json *body;	       // the texts below are of it
	struct str start, ready;       // commands for bash; at NULL: none
	const struct json *start_argv; // start as a list; NULL: it is a command, or none
	bool of_image;		       // start the image's Entrypoint and Cmd
	uint64_t port;		       // ready when something listens; 0: not asked
	struct str file;	       // ready when it exists; at NULL: not asked
};

void launch_done(struct launch *launch);
#define auto_launch on_exit_call(launch_done) struct launch

// `start` (a command, a list or true) and `ready` (a command, {port} or {file}) of an object, as a
// text that the caller frees; NULL: it has neither. INVALID bad_field.
fallible launch_take(const struct json *object, char **out);
// Such a text. NULL: nothing is asked.
fallible launch_read(const char *text, struct launch *out);
// As members of an object that is being written.
void launch_put(struct json_out *out, const char *text);
// Completes *launch by what the image says: its own launch where none was given, its Entrypoint and
// Cmd, a list as JSON, for `true`. NULL: it has none. INVALID no_start.
fallible launch_fill(char **launch, const char *image_launch, const char *image_argv);
