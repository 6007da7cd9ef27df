// A directory as a tar stream, made on the fly: sorted, with numeric ids and without the names of
// this host's users, so that the same tree gives the same bytes.
#pragma once

#include "base/err.h"

struct tar;

// A thread walks the tree and writes; *out_fd is the end to read from, the caller's. INVALID
// not_dir.
fallible tar_start(const char *dir, struct tar **out, int *out_fd);
// After the reading ended, early or not: waits for the thread and tells how it went. Frees it.
fallible tar_end(struct tar *tar);
