// Sandboxes up and down the ladder: paused, resumed, stopped, started; and the janitor.
#pragma once

#include "cli/call.h"

fallible lifecycle_take(struct call *call); // whichever of the four the verb is
// PATCH {rotateToken}; prints the URL with the next credential.
fallible lifecycle_rotate(struct call *call);
fallible lifecycle_cleanup(struct call *call);
