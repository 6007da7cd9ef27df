// Commands in boxes: `run` makes a box for one command and removes it, `exec` uses one that is
// there, `shell` and `attach` show a terminal of it.
#pragma once

#include "cli/call.h"

fallible run_run(struct call *call);
fallible run_exec(struct call *call);
fallible run_shell(struct call *call);
fallible run_attach(struct call *call);
