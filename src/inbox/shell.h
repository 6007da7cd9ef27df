// Commands in a session.
#pragma once

#include "inbox/job.h"

// Runs it in the session that it belongs to, made when there is none, and answers when it has
// ended. Errors are answered.
fallible inbox_shell_run(struct http *x, struct job *job);
