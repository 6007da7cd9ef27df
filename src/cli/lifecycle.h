// Pause, resume, stop and start of sandboxes; the janitor.
#pragma once

#include "cli/call.h"

fallible lifecycle_take(struct call *call); // for all four verbs
// PATCH {rotateToken}; prints the URL with the new token.
fallible lifecycle_rotate(struct call *call);
fallible lifecycle_cleanup(struct call *call);
