// What a command is told to be. The texts are borrowed until exec_start() returns.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct exec_spec {
	bool shell;		  // argv[0] is a command line for bash -c
	const char *const *argv;  // NULL-ended
	const char *const *env;	  // NULL-ended "NAME=value", complete
	bool add_home;		  // HOME and USER from the box's passwd
	const char *cwd, *user;	  // "" for user: root
	struct str stdin_bytes;	  // at == NULL: /dev/null
	uint64_t output_cap;	  // bytes
	uint64_t cpu_ms, wall_ms; // 0: none
	uint32_t cpu_milli;	  // of the box: how fast CPU time can pass
};
