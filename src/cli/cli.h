// The command line. It uses only the API: a user's own program can do whatever a verb does.
#pragma once

#include "base/setting.h"

// argv as main got it. Returns the exit status. `serve` is in the table for help and completion
// only: main calls the supervisor, but `cove serve --help` comes here, with the settings of serve.
int cli_main(int argc, char **argv, const struct setting *settings);
