// Where a verb may wait: one loop with one task on it.
#pragma once

#include "cli/call.h"

// Makes a loop, runs fn(call) as its one task with call->loop set, and takes the loop down again.
fallible turn_run(struct call *call, verb_fn *fn);
