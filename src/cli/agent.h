// run --sync: a command in the sandbox of the worktree.
#pragma once

#include "cli/call.h"

#define AGENT_THOR "COVE_AGENT_THOR" // set: the events that Thor's programs know by their names

fallible cli_agent_run_sync(struct call *call);
