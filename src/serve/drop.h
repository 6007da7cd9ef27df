// Drops all privileges of the daemon before it reads its first hostile byte.
#pragma once

#include <sys/types.h>

#include "base/err.h"

#define DROP_READABLE_MAX 16
struct drop {
	uid_t uid;
	gid_t gid;
	const char *daemon_dir, *run_dir; // all that stays writable
	const char *const *readable;	  // further directories that stay readable, ended by NULL
};

// Changes the user; drops groups and capabilities for good; restricts the file system (Landlock,
// where the kernel has it) and the system calls (seccomp, the calls that the sources name). Call it
// while there is one thread.
fallible drop_rights(const struct drop *drop);
