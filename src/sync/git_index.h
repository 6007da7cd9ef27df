// Paths that git tracks: the index of a repository (gitformat-index(5)), versions 2 to 4. The bytes
// are untrusted. No I/O.
#pragma once

#include "sync/file_list.h"

// Adds the paths, sorted; only these are set. NOT_OFFERED split_index; INVALID bad_index.
fallible git_index_read(struct str bytes, struct file_list *out);
