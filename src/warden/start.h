// Start and exit of the warden: everything between main and the loop.
#pragma once

#include "warden/box.h"

// Takes the options of warden/warden.h. Undone on failure. UNAVAILABLE with a hint if the host
// lacks a requirement. *out is NULL, without an error, if SIGTERM came meanwhile.
fallible start_warden(int argc, char **argv, struct warden **out);
// Frees everything; boxes must be gone. NULL is accepted.
void start_undo(struct warden *warden);
