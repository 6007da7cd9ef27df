// What every pid 1 is born with: its program, and its kit (protocol/talk.h). Both are memfds,
// sealed: no box can change what the next one starts from.
#pragma once

#include <stdbool.h>

#include "base/err.h"

// The caller owns the fds.
fallible init_config_program(int *out_fd);
fallible init_config_make(bool joins_by_clone, int *out_fd);
