// What a terminal is to run, as a request says it: the shell of a session, or a command.
#pragma once

#include "gateway/gateway.h"
#include "manager/box_ref.h"

struct terminal_command {
	// as asked
	struct str id;	    // of the terminal; len 0: one is made
	struct str session; // len 0: none
	bool must_exist;    // `terminal` was named: nothing is started
	bool is_command;
	uint64_t cols, rows;
	// as it will be started
	const char **argv;
	struct env_map env;
	const char *cwd, *user;
	struct buf script; // restores the session's state
	struct str shown;
};

// Reads the query. INVALID bad_field.
fallible terminal_command_read(struct http *x, struct terminal_command *out);
void terminal_command_done(struct terminal_command *terminal_command);
#define auto_terminal_command on_exit_call(terminal_command_done) struct terminal_command

// Attaches to the terminal, or starts it where its session stands. Waits. NOT_FOUND no_terminal,
// and what term_open() says.
fallible terminal_command_take(struct http *x, const struct box_ref *ref,
			       struct terminal_command *terminal_command, struct term **out);
