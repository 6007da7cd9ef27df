// Helper processes: children that the warden forks, and programs of the host that it runs
// (mkfs.btrfs, mke2fs and e2fsck, with fixed arguments).
#pragma once

#include "base/err.h"

#define HELPER_KEEP_FIRST 3
// In a new child: only stdin, stdout, stderr and `fds` stay open; these become 3 and up. -1: errno.
int helper_keep(int *fds, int count);
// Kills a child and reaps it. 0 or less: there is none.
void helper_end(int pid);

// Runs argv[0], found in the host's system directories, with `file` as its fd 3 (-1: none) and an
// environment of ours, and waits. NOT_OFFERED no_tool when it is not installed,
// UNAVAILABLE NS_HELPER_LOST when it was killed.
fallible helper_run(const char *const *argv, int file);
// Starts it and returns at once. The exit status is known to the one who reaps *out_pid; its output
// is discarded.
fallible helper_start(const char *const *argv, int file, int *out_pid);
