// What a command is told to be. The texts are borrowed until exec_start() returns.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "protocol/exec_label.h"

struct tape;

struct exec_spec {
	bool shell;		  // argv[0] is a command line for bash -c
	const char *const *argv;  // NULL-ended
	const char *const *env;	  // NULL-ended "NAME=value", complete
	bool add_home;		  // HOME and USER from the box's passwd
	const char *cwd, *user;	  // "" for user: root
	struct str stdin_bytes;	  // at == NULL: /dev/null
	bool open_stdin;	  // a pipe that stays open behind stdin_bytes: exec_write()
	bool dialogue;		  // a socket as stdin, and no tape of its own: exec_take_dialogue()
	uint16_t cols, rows;	  // not 0: a terminal of that size, no tape: exec_take_master()
	struct tape *tape;	  // what its output goes to; NULL: one of its own
	uint64_t output_cap;	  // bytes, of one of its own
	uint64_t cpu_ms, wall_ms; // 0: none
	uint32_t cpu_milli;	  // of the box: how fast CPU time can pass
	const struct exec_label
		*tag;	  // what it is for, for the next daemon; NULL: for nobody but us
	const char *mark; // shown in the name of its cgroup: [a-z0-9_], up to 63; NULL: none
	bool keeps;	  // it may become what has a record: exec_filed() ends it
};
