// How the warden comes to be, and how it leaves: everything between main and the loop.
#pragma once

#include "warden/box.h"

// Takes the options of warden/warden.h. On failure nothing of it is left. UNAVAILABLE with a hint
// when the host lacks what is required. *out is NULL, without an error, if SIGTERM came meanwhile.
fallible start_warden(int argc, char **argv, struct warden **out);
// Gives everything back; boxes must be gone. NULL is welcome.
void start_undo(struct warden *warden);
