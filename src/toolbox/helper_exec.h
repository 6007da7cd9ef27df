// Runs a program in the box for a handler's own purposes, to its end, and returns its output,
// bounded.
#pragma once

#include "gateway/gateway.h"

#define HELPER_EXEC_OUTPUT_MAX (64 * 1024)

struct helper_exec {
	const char *const *argv;   // NULL-terminated
	const struct env_map *env; // may be NULL
	const char *cwd;	   // NULL: /workspace
	uint64_t wall_ms;	   // 0: only the box's own limit
	size_t output_max;	   // 0: HELPER_EXEC_OUTPUT_MAX; output beyond is dropped
	struct exec_result result;
	struct buf out, err;
};

// Waits until the program ends or the client disconnects; the program runs on then. The caller
// calls helper_exec_done() in any case.
fallible helper_exec_run(struct http *x, struct helper_exec *helper);
void helper_exec_done(struct helper_exec *helper);
#define auto_helper_exec on_exit_call(helper_exec_done) struct helper_exec
