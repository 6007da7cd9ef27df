// What a terminal is to run, as a request says it: the shell of a session, or a command.
#pragma once

#include "door/door.h"
#include "fleet/visit.h"

struct seat {
	// as asked
	struct str id;	    // of the terminal; len 0: one is made
	struct str session; // len 0: none
	bool must_exist;    // `terminal` was named: nothing is started
	bool is_command;
	uint64_t cols, rows;
	// as it will be started
	const char **argv;
	struct pairs env;
	const char *cwd, *user;
	struct buf script; // restores the session's state
	struct str shown;
};

// Reads the query. INVALID bad_field.
fallible seat_read(struct http *x, struct seat *out);
void seat_done(struct seat *seat);
#define auto_seat on_exit_call(seat_done) struct seat

// Attaches to the terminal, or starts it where its session stands. Waits. NOT_FOUND no_terminal,
// and what term_open() says.
fallible seat_take(struct http *x, const struct visit *visit, struct seat *seat, struct term **out);
