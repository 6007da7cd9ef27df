// run --sync: a command in the sandbox of the worktree.
#pragma once

#include "cli/call.h"

fallible cli_agent_run_sync(struct call *call);
