// Copies a tree from one path of the box to another.
#pragma once

#include <stdbool.h>

// `name` in `dir` is copied to `new_name` in `new_dir`, which must not exist: files, directories,
// links, with modes, times and, if allowed, owners. False with errno; a partial copy stays. EINVAL:
// an entry is neither of the three.
bool copy_tree(int dir, const char *name, int new_dir, const char *new_name);
