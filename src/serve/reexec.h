// Replaces the supervisor's binary in place by execve(): pid, children, lock and listeners stay;
// the new image gets their numbers in one environment variable.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

#define REEXEC_LISTENERS 4

struct reexec {
	int generation;
	int lock, key, ready[2];
	int holds; // 0: an image without it
	int listeners[REEXEC_LISTENERS], listener_count;
	int previews[REEXEC_LISTENERS], preview_count;
	int users;	      // the Unix socket of local users; 0: none
	pid_t warden, daemon; // 0: not running
	char listen[512];     // the addresses that the listeners are bound to
	char preview[512];    // and those of previews
	char url[128];
};

// Whether the previous image has left its state; removes it from the environment. INVALID when it
// cannot be parsed.
fallible reexec_take(bool *out_is, struct reexec *out);
// The path of our binary, whatever file is there now. The caller frees it.
fallible reexec_program(char **out);
// Checks that it can be started. UNAVAILABLE bad_binary.
fallible reexec_check(const char *program);
// Executes `program`. Returns only on failure, and then nothing has changed.
fallible reexec_become(const char *program, char **argv, const struct reexec *reexec);
