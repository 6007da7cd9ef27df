// The program and configuration of pid 1 (protocol/talk.h). Both are sealed memfds: no box can
// change what the next one starts from.
#pragma once

#include <stdbool.h>

#include "base/err.h"

// The caller owns the fds.
fallible init_config_program(int *out_fd);
fallible init_config_make(bool joins_by_clone, int *out_fd);
