// Dropping privileges: capabilities, privileges gained by exec, and file system access (Landlock).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CAPS_BIT(cap) (1ull << (cap))

// The capabilities that the warden needs, and no others.
uint64_t caps_warden(void);
// The permitted capabilities of this process.
fallible caps_now(uint64_t *out);
// Limits the bounding set to `mask`. No effect without CAP_SETPCAP.
fallible caps_bound(uint64_t mask);
// Keeps only `mask`: bounding, permitted, effective; ambient and inheritable become empty.
fallible caps_keep(uint64_t mask);
// Sets no_new_privs.
fallible caps_no_new_privs(void);

struct caps_path {
	const char *path; // a missing path is skipped
	bool writable;
};
// The kernel's Landlock version; 0: none.
int caps_landlock_version(void);
// Restricts the file system to these trees. OK without effect where the kernel has no Landlock.
fallible caps_landlock(const struct caps_path *paths, size_t count);
