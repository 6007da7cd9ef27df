// Commands in a session.
#pragma once

#include "toolbox/exec_request.h"

// Runs it in the session that it belongs to, made when there is none, and answers when it has
// ended. Errors are answered.
fallible toolbox_shell_run(struct http *x, struct exec_request *request);
