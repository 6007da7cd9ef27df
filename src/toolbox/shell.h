// Commands in a session.
#pragma once

#include "toolbox/exec_request.h"

// Runs the command in its session, which is created if needed, and answers when it has ended.
// Errors are answered.
fallible toolbox_shell_run(struct http *x, struct exec_request *request);
