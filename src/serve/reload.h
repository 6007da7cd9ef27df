// Changes the configuration of a running cove: the supervisor reads it, and passes it to the daemon
// in a shared memfd.
#pragma once

#include "serve/config.h"

// For the supervisor: makes the memfd with the settings in use.
fallible reload_open(const struct config *used, int *out_fd);
// Parses argv again. `asked` are the settings last read, `used` those in use; both, and the file,
// are updated. False: invalid, logged, and nothing has changed.
bool reload_now(int argc, char **argv, struct config *asked, struct config *used, int fd);

// For the daemon: updates `used`; adds the names of changed settings to `changed`.
fallible reload_read(int fd, struct config *used, struct buf *changed);
