// The supervisor in a new binary: it executes itself anew, in place. Its pid, its children, its
// lock and its listeners stay; what the new image must know of them travels in one variable of the
// environment.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

#define REEXEC_LISTENERS 4

struct reexec {
	unsigned generation;
	int lock, key, ready[2];
	int holds; // 0: an image that had none
	int listeners[REEXEC_LISTENERS], listener_count;
	int previews[REEXEC_LISTENERS], preview_count;
	int users;	      // the Unix socket of local users; 0: none
	pid_t warden, daemon; // 0: not running
	char listen[512];     // the addresses that the listeners are bound to
	char preview[512];    // and those of previews
	char url[128];
};

// Whether the image before us has left its state; takes it out of the environment. INVALID when
// there is one that cannot be read.
fallible reexec_take(bool *out_is, struct reexec *out);
// The binary that is to be started next: where ours was found, whatever lies there now. The caller
// frees it.
fallible reexec_program(char **out);
// Whether it can be started at all. UNAVAILABLE bad_binary.
fallible reexec_check(const char *program);
// Becomes `program`. Returns only when that failed, and then all is as before.
fallible reexec_become(const char *program, char **argv, const struct reexec *reexec);
