// From options to what the API is asked: the body of a create, the body of an execute. No I/O but
// the reading of --env-file.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "cli/call.h"

#define BODY_MAX (1 << 20) // the daemon reads no larger JSON body

// POST /v1/sandboxes. Variables are the box's own. INVALID with a hint for values that are
// malformed.
fallible body_create(const struct call *call, struct buf *out);

struct body_exec {
	char *const *argv; // `count` words; ignored when --shell is given
	int count;
	struct str input; // stdin; at == NULL: none
	bool with_env;	  // variables are of this command (exec), not of the box (run)
	bool streamed;
};
// POST …/api/execute or …/api/execute/stream. INVALID no_command when there is none. TOO_LARGE
// stdin_too_large when the input does not fit into one request.
fallible body_execute(const struct call *call, const struct body_exec *exec, struct buf *out);
