// Giving up rights: capabilities, privileges gained by exec, and the file system (Landlock).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CAPS_BIT(cap) (1ull << (cap))

// What the warden keeps: what its work asks for and no more.
uint64_t caps_warden(void);
// The capabilities that this process may use.
fallible caps_now(uint64_t *out);
// No exec gains more than `mask` any more. Nothing happens without CAP_SETPCAP.
fallible caps_bound(uint64_t mask);
// Keeps only `mask`: bounding, permitted, effective; ambient and inheritable become empty.
fallible caps_keep(uint64_t mask);
// No exec gains anything any more, for ever.
fallible caps_no_new_privs(void);

struct caps_path {
	const char *path; // a missing one is left out
	bool writable;
};
// The kernel's Landlock version; 0: none.
int caps_landlock_version(void);
// Of the file system only these trees remain. OK without effect where the kernel has no Landlock.
fallible caps_landlock(const struct caps_path *paths, size_t count);
