// A tree, copied from one place of the box to another.
#pragma once

#include <stdbool.h>

// `name` in `dir` becomes `new_name` in `new_dir`, where there must be nothing: files, directories,
// links, with modes, times and, if allowed, owners. False with errno; what was made by then is
// there. EINVAL: something is neither of the three.
bool copy_tree(int dir, const char *name, int new_dir, const char *new_name);
