// SWEEP of a file worker: signals to the processes that a command has started.
#pragma once

#include "protocol/fileop.h"

bool sweep_serve(const struct fileop_request *ask, struct fileop_reply *reply);
