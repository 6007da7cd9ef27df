// Programs of the host that the warden runs: mkfs.btrfs, mke2fs and e2fsck, with fixed arguments.
#pragma once

#include "base/err.h"

// Runs argv[0], found in the host's system directories, with `file` as its fd 3 (-1: none) and an
// environment of ours, and waits. NOT_OFFERED no_tool when it is not installed,
// UNAVAILABLE NS_HELPER_LOST when it was killed.
fallible tool_run(const char *const *argv, int file);
// Starts it and returns at once. The exit status is known to the one who reaps *out_pid; its output
// is discarded.
fallible tool_start(const char *const *argv, int file, int *out_pid);
