// From options to the specs of a sandbox or a command. No I/O except reading --env-file.
#pragma once

#include "base/auto.h"
#include "base/err.h"
#include "cli/call.h"
#include "codec/json.h"
#include "lib/cove.h"

#define BODY_INPUT_MAX (1 << 20) // of a command's input within one request

struct body {
	struct cove_box_spec box;
	struct cove_command command;
	char **env, **labels;			  // NULL-ended; the specs borrow them
	const char **allow, **secrets, **volumes; // likewise, their words borrowed from the call
	size_t env_count, label_count;
	bool may_lack_command; // no command is not an error
};
void body_done(struct body *body);
#define auto_body on_exit_call(body_done) struct body

// Options that become members of a request, for body_put().
struct body_row {
	enum opt opt;
	enum body_type {
		BODY_TEXT,
		BODY_LIST, // all values of a repeated option
		BODY_FLAG, // true
		BODY_TIME, // seconds; bare numbers are seconds too
		BODY_COUNT,
		BODY_MIB, // rounded up
		BODY_CPUS,
	} type;
	const char *key; // NULL: the end of the rows
};
// Writes the options that were given. INVALID bad_value.
fallible body_put(struct json_out *out, const struct call *call, const struct body_row *rows);
// A time of an option in milliseconds; *out is unchanged if it was not given. INVALID bad_value
// with the example.
fallible body_ms(const struct call *call, enum opt opt, const char *example, int64_t *out);

// A box to be created. Variables are the box's. INVALID with a hint for malformed values.
fallible body_box(const struct call *call, struct body *out);
// Its network and secrets alone. INVALID bad_value.
fallible body_network(const struct call *call, struct body *out);
// A command. `argv` is NULL-ended; ignored when --shell is given. `with_env`: variables are for
// this command (exec), not for the box (run). INVALID no_command, two_commands.
fallible body_command(const struct call *call, char *const *argv, bool with_env, struct body *out);
// A cell: time limit, directory and variables, as for a command.
fallible body_cell(const struct call *call, struct body *out);
// Only --env and --env-file, as for a command.
fallible body_env(const struct call *call, struct body *out);
