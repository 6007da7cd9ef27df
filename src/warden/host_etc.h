// The part of the host's /etc that a box may see.
#pragma once

#include "base/err.h"
#include "os/path.h"

// Copies it from `host`/etc to the empty directory `etc`, and makes in `root` the directories
// beneath /var that packages own.
fallible host_etc(int host, int root, int etc, struct path_copied *sum);
