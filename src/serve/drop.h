// Giving up every right: what the daemon does before it reads its first hostile byte.
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct drop {
	uid_t uid;
	gid_t gid;
	const char *daemon_dir, *run_dir; // all that stays writable
};

// Another user, no groups, no capabilities, no way to gain any; of the file system only what the
// daemon needs (where the kernel has Landlock); of the system calls only those that its sources
// name. Call it while there is one thread.
fallible drop_rights(const struct drop *drop);
