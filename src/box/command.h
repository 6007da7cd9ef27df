// The parameters of a command. Texts are borrowed until exec_start() returns.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "protocol/exec_label.h"

struct tape;

struct exec_spec {
	bool shell;			// argv[0] is a command line for bash -c
	const char *const *argv;	// NULL-ended
	const char *const *env;		// NULL-ended "NAME=value", complete
	bool add_home;			// HOME and USER from the box's passwd
	const char *cwd, *user;		// "" for user: root
	struct str stdin_bytes;		// at == NULL: /dev/null
	bool open_stdin;		// a pipe that stays open after stdin_bytes: exec_write()
	bool dialogue;			// a socket as stdin, no tape: exec_take_dialogue()
	uint16_t cols, rows;		// not 0: a pty of that size, no tape: exec_take_master()
	struct tape *tape;		// for its output; NULL: one of its own
	uint64_t output_cap;		// bytes, of its own tape
	uint64_t cpu_ms, wall_ms;	// 0: none
	uint32_t cpu_milli;		// CPU share of the box
	const struct exec_label *label; // its purpose, for the next daemon; NULL: none
	const char *mark; // part of its cgroup's name: [a-z0-9_], up to 63; NULL: none
	bool keeps;	  // it may become a recorded process: pid 1 keeps it until exec_filed()
};
