// From options to what is asked for: a sandbox, a command. No I/O but the reading of --env-file.
#pragma once

#include "base/auto.h"
#include "base/err.h"
#include "cli/call.h"
#include "lib/cove.h"

#define BODY_INPUT_MAX (1 << 20) // what a command's input may be, inside one request

struct body {
	struct cove_box_spec box;
	struct cove_command command;
	char **env, **labels; // NULL-ended; the specs borrow them
	const char **allow;   // likewise, its words borrowed from the call
	size_t env_count, label_count;
	bool may_lack_command; // one without a command is none that was forgotten
};
void body_done(struct body *body);
#define auto_body on_exit_call(body_done) struct body

// A box to be made. Variables are the box's own. INVALID with a hint for values that are malformed.
fallible body_box(const struct call *call, struct body *out);
// A command. `argv` is NULL-ended; ignored when --shell is given. `with_env`: variables are of this
// command (exec), not of the box (run). INVALID no_command when there is none, two_commands.
fallible body_command(const struct call *call, char *const *argv, bool with_env, struct body *out);
// A cell: its time limit, directory and variables, as the command's.
fallible body_cell(const struct call *call, struct body *out);
// Only --env and --env-file, as the command's.
fallible body_env(const struct call *call, struct body *out);
