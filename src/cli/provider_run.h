// Runs of providers that can only execute a command and wait for it: the run is a background
// process there, with its output, process id and status in files beside the
// directory of the copy, in .cove-agent/runs.
#pragma once

#include "cli/provider.h"

fallible provider_run_start(struct provider_run *run, const struct cove_command *command,
			    const char *const *argv);
fallible provider_run_next(struct provider_run *run, struct cove_piece *out);
fallible provider_run_stop(struct provider_run *run, bool interrupt);
bool provider_run_has(struct sync_box *box, const char *id);
fallible provider_run_list(struct sync_box *box, cove_process_fn *each, void *arg);
