// The command lines of the supervisor's children, NULL-ended; argv_free() frees them.
#pragma once

#include "serve/config.h"

char **argv_daemon(const struct config *config);
char **argv_warden(const struct config *config);
void argv_free(char **argv);
