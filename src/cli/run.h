// Commands in boxes: `run` creates a box for one command, `exec` uses an existing one, `shell` and
// `attach` show a terminal.
#pragma once

#include "cli/call.h"

fallible run_run(struct call *call);
fallible run_exec(struct call *call);
fallible run_shell(struct call *call);
fallible run_attach(struct call *call);
