// The command line. It knows the API and nothing behind it: whatever a verb does, a user's own
// program can do.
#pragma once

#include "base/setting.h"

// argv as main got it. Returns the exit status. `serve` is in the table for help and completion
// only: main hands it to the supervisor, but `cove serve --help` comes here; so main also hands
// over what can be set there.
int cli_main(int argc, char **argv, const struct setting *settings);
