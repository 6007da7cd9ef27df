// The programs of the host that the warden runs: mkfs.btrfs, mke2fs and e2fsck, by fixed arguments.
#pragma once

#include "base/err.h"

// Runs argv[0], found in the host's system directories, with `file` as its fd 3 (-1: none) and an
// environment of ours, and waits. NOT_OFFERED no_tool when it is not installed.
fallible tool_run(const char *const *argv, int file);
// The same, where an exit status from 0 to `most` is success.
fallible tool_run_up_to(const char *const *argv, int file, int most);
