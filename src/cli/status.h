// The exit status of a verb that hands on somebody else's.
#pragma once

#include "cli/call.h"
#include "lib/cove.h"

#define STATUS_OWN_FAILURE 125
#define STATUS_CANNOT_INVOKE 126
#define STATUS_NOT_FOUND 127
#define STATUS_SIGNALED 128

// The command has ended: its status becomes ours, and what ended it is told, unless we are to be
// quiet. BAD_PEER box_lost when there is none; and as status_whole().
fallible status_take(struct call *call, const struct cove_result *result);
// NO_SPACE output_incomplete: we could not show all of its output.
fallible status_whole(const struct cove_result *result);
// The verb has failed, if it has: some failures have a status of their own. Returns the same error.
fallible status_end(struct call *call, struct err *err);
