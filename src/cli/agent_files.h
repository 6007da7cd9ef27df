// Files of this host that a run gets: --secret FILE:PATH and --file FILE:PATH.
#pragma once

#include "cli/sync.h"

// Appends a whole file. INVALID no_file; TOO_LARGE file_too_large.
fallible agent_files_read(const char *path, size_t max, struct buf *out);
// After sync_in(): places the files of the options for a run, fresh. A secret, and a file within
// the worktree, is a link to a file in memory. INVALID bad_value, bad_secret, cannot_place.
fallible agent_files_put(struct sync *sync, const char *run);
// Removes the links and the files in memory. A sandbox that is gone has none.
fallible agent_files_remove(struct sync *sync, const char *run);
