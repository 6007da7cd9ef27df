// A directory of the warden's own: 0700, root's, and bind-mounted upon itself nosuid,nodev in this
// (private) mount namespace, for what lies in it has the ids of boxes, unshifted
// (docs/ISOLATION.md HOST-5).
#pragma once

#include "base/err.h"

struct vault {
	int dir;   // beneath the bind: renames between vaults of one file system work
	int bound; // the bind; -1: none
};

#define VAULT_NONE ((struct vault){-1, -1})

// Makes `name` beneath `data` when it is absent, and covers it.
fallible vault_open(int data, const char *name, struct vault *out);
void vault_close(struct vault *vault);
// Takes the mount whose root `fd` is out of this mount namespace.
void vault_unmount(int fd);
