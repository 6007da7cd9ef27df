// An errand: a program that a handler runs in the box for its own purposes, to its end, and the
// output of it, bounded.
#pragma once

#include "gateway/gateway.h"

#define HELPER_EXEC_OUTPUT_MAX (64 * 1024)

struct helper_exec {
	const char *const *argv;   // NULL-ended
	const struct env_map *env; // may be NULL
	const char *cwd;	   // NULL: /workspace
	uint64_t wall_ms;	   // 0: the box's limit alone
	size_t output_max;	   // 0: HELPER_EXEC_OUTPUT_MAX; what comes beyond is dropped
	struct exec_result result;
	struct buf out, err;
};

// Until the client leaves, which ends the waiting but not the program. helper_exec_done() is due in
// any case.
fallible helper_exec_run(struct http *x, struct helper_exec *work_item);
void helper_exec_done(struct helper_exec *work_item);
#define auto_work_item on_exit_call(helper_exec_done) struct helper_exec
