// The program of a new terminal, as a request describes it: a session's shell, or a command.
#pragma once

#include "gateway/gateway.h"
#include "manager/box_ref.h"

struct terminal_command {
	// as requested
	struct str id;	    // of the terminal; len 0: generate one
	struct str session; // len 0: none
	bool must_exist;    // `terminal` was named: only attach
	bool is_command;
	uint64_t cols, rows;
	// as it is started
	const char **argv;
	struct env_map env;
	const char *cwd, *user;
	struct buf script; // restores the session's state
	struct str shown;
};

// Parses the query. INVALID bad_field.
fallible terminal_command_read(struct http *x, struct terminal_command *out);
void terminal_command_done(struct terminal_command *terminal_command);
#define auto_terminal_command on_exit_call(terminal_command_done) struct terminal_command

// Attaches to the terminal, or starts it in its session's directory. Waits. NOT_FOUND no_terminal,
// and the errors of term_open().
fallible terminal_command_take(struct http *x, const struct box_ref *ref,
			       struct terminal_command *terminal_command, struct term **out);
