// Starts what a sandbox runs at each of its starts, and waits until it is ready.
#pragma once

#include "manager/table.h"
#include "types/launch.h"

// From now on each create and each start of a sandbox runs its launch, and waits until it is ready:
// TIMEOUT not_ready, with the end of the output in its hint, after TIMER_LAUNCH; the errors of
// manager_exec_start().
void box_launch_open(struct manager *manager);
// Whether the sandbox of that id is ready now; `text` as in types/launch.h. `tail` gets the end of
// the output of a command that says no; may be NULL. Waits.
fallible box_launch_ask(struct manager *manager, const char *tenant, const char *id,
			const char *text, bool *out, struct buf *tail);
