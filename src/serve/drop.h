// Drops all privileges of the daemon before it reads its first hostile byte.
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct drop {
	uid_t uid;
	gid_t gid;
	const char *daemon_dir, *run_dir; // all that stays writable
};

// Changes the user; drops groups and capabilities for good; restricts the file system (Landlock,
// where the kernel has it) and the system calls (seccomp, the calls that the sources name). Call it
// while there is one thread.
fallible drop_rights(const struct drop *drop);
