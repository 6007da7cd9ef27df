// Another configuration for a cove that runs: the supervisor reads it, the daemon is told of it
// through a file without a name that both have open.
#pragma once

#include "serve/config.h"

// The supervisor's. A file for the daemon that says what is in use.
fallible reload_open(const struct config *used, int *out_fd);
// Reads argv anew. `asked` is what it said last, `used` what is in use; both, and the file, are
// brought up to date. False: it is not right, the log says why, and nothing has changed.
bool reload_now(int argc, char **argv, struct config *asked, struct config *used, int fd);

// The daemon's. Brings `used` up to date; the names of what changed are added to `changed`.
fallible reload_hear(int fd, struct config *used, struct buf *changed);
