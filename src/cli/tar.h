// A directory as a tar stream, made on the fly: sorted, with numeric ids and no user names, so that
// the same tree gives the same bytes.
#pragma once

#include "base/err.h"

struct tar;

// A thread walks the tree and writes; *out_fd is the read end, owned by the caller. INVALID
// not_dir.
fallible tar_start(const char *dir, struct tar **out, int *out_fd);
// Call it when reading has ended, early or not: waits for the thread and returns its result. Frees
// it.
fallible tar_end(struct tar *tar);
