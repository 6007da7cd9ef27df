// Runs of an agent session: start, list, follow.
#pragma once

#include "cli/call.h"

fallible cli_session_run(struct call *call);
fallible cli_session_runs(struct call *call);
fallible cli_session_events(struct call *call);
