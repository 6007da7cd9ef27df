// A daemon for the lifetime of one command: what `cove run` starts when none is there, so that one
// command on a fresh machine already works.
#pragma once

#include "base/err.h"
#include "cli/remote.h"

struct embedded;

// Starts `cove serve` on a free port, in `data` or, when another daemon holds that, in a private
// directory beside it, and waits until it serves. FORBIDDEN not_root; UNAVAILABLE no_start with its
// own words as the hint. Waits.
fallible embedded_start(const char *data, struct embedded **out);
// Where it is and the key to it.
fallible embedded_remote(const struct embedded *embedded, struct remote *out);
// Stops it: its boxes are gone and its private directory is removed. Waits. Frees it.
void embedded_stop(struct embedded *embedded);
