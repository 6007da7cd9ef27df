// A directory of the warden's own: 0700, root's, bind-mounted over itself nosuid,nodev in this
// private mount namespace, because files in it have the ids of boxes, unshifted (docs/ISOLATION.md
// HOST-5).
#pragma once

#include <stdint.h>

#include "base/err.h"

struct private_dir {
	int dir;   // beneath the bind: renames between private directories of one file system work
	int bound; // the bind; -1: none
};

#define PRIVATE_DIR_NONE ((struct private_dir){-1, -1})

// Makes `name` beneath `data` if absent, and binds it.
fallible private_dir_open(int data, const char *name, struct private_dir *out);
void private_dir_close(struct private_dir *private_dir);
// Unmounts the mount whose root is `fd` from this mount namespace.
void private_dir_unmount(int fd);

// Free bytes of the host's file system beyond a watermark that stays unused, the smaller of 2 GiB
// and 5 % of its size; and its size, unless NULL. Blocks reserved for root do not count as free.
fallible private_dir_room(int data, uint64_t *out_total, uint64_t *out_room);
