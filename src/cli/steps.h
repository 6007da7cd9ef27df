// Sandboxes up and down the ladder: paused, resumed, stopped, started; and the janitor.
#pragma once

#include "cli/call.h"

fallible steps_take(struct call *call); // whichever of the four the verb is
// PATCH {rotateToken}; prints the URL with the next credential.
fallible steps_rotate(struct call *call);
fallible steps_cleanup(struct call *call);
