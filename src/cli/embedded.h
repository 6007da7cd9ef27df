// A daemon for the lifetime of one command: `cove run` starts it when none runs.
#pragma once

#include "base/err.h"
#include "cli/remote.h"

struct embedded;

// Starts `cove serve` on a free port, in `data` or, when another daemon holds that, in a private
// directory beside it, and waits until it serves. FORBIDDEN not_root; UNAVAILABLE no_start with its
// stderr as the hint.
fallible embedded_start(const char *data, struct embedded **out);
// Opens a client with its address and key.
fallible embedded_remote(const struct embedded *embedded, struct remote *out);
// Stops it with its boxes, and removes its private directory. Waits. Frees it.
void embedded_stop(struct embedded *embedded);
