// The exit status of a verb that passes on a command's.
#pragma once

#include "cli/call.h"
#include "lib/cove.h"

#define STATUS_OWN_FAILURE 125
#define STATUS_CANNOT_INVOKE 126
#define STATUS_NOT_FOUND 127
#define STATUS_SIGNALED 128

// The command has ended: its status becomes ours, and the cause is noted unless --quiet. BAD_PEER
// box_lost without a status; and as status_whole().
fallible status_take(struct call *call, const struct cove_result *result);
// NO_SPACE output_incomplete: not all output could be shown.
fallible status_whole(const struct cove_result *result);
// Sets the status for an error, if it has one of its own. Returns the same error.
fallible status_end(struct call *call, struct err *err);
