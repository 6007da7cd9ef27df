// An execution on its way, for the verbs that submit one.
#pragma once

#include "cli/remote.h"

// Follows the execution as the options say: its steps on a terminal, its output, its record with
// --json; its end is our exit status. With --detach its id is printed, and nothing followed.
// `may_rest`: it may have no command, then its readiness is the end.
fallible cli_executions_follow(struct call *call, struct remote *remote,
			       struct cove_execution *execution, bool may_rest);

static inline void auto_cove_execution_(struct cove_execution **execution)
{
	cove_execution_free(*execution);
}
#define auto_cove_execution on_exit_call(auto_cove_execution_) struct cove_execution *
