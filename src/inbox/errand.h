// An errand: a program that a handler runs in the box for its own purposes, to its end, and the
// output of it, bounded.
#pragma once

#include "door/door.h"

#define ERRAND_OUTPUT_MAX (64 * 1024)

struct errand {
	const char *const *argv; // NULL-ended
	const struct pairs *env; // may be NULL
	const char *cwd;	 // NULL: /workspace
	uint64_t wall_ms;	 // 0: the box's limit alone
	size_t output_max;	 // 0: ERRAND_OUTPUT_MAX; what comes beyond is dropped
	struct exec_result result;
	struct buf out, err;
};

// Until the client leaves, which ends the waiting but not the program. errand_done() is due in any
// case.
fallible errand_run(struct http *x, struct errand *errand);
void errand_done(struct errand *errand);
#define auto_errand on_exit_call(errand_done) struct errand
