// Paths and trees beneath directories that we hold open. The kernel resolves every path there: we
// never join strings and hope. Everything here blocks; it is for the warden and its children.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

// Opens `path` beneath the directory `root`. A path that leads outside, by "..", by a leading slash
// or by a link, is FORBIDDEN path_escape; a missing one is NOT_FOUND no_file. The caller owns
// *out_fd, which is left untouched on failure.
fallible path_open(int root, const char *path, int flags, int *out_fd);

// The directory `name` in `dir`, made (with exactly `mode`) when it is absent. A link or a file of
// that name is an error.
fallible path_dir(int dir, const char *name, mode_t mode, int *out_fd);
// The whole of a file, added to `out`; longer than its ceiling is TOO_LARGE.
fallible path_read(int dir, const char *name, struct buf *out);
// A file with exactly `mode` in place of whatever has that name. It is written aside ("NAME~") and
// renamed: a reader, and the next start after a kill, finds the old file or the new one, whole.
fallible path_write(int dir, const char *name, mode_t mode, const char *text);
// The same, and the file and its name are on the disk when it returns: a power cut leaves it whole.
// For every file of cove's own that is not made anew at each boot.
fallible path_write_sync(int dir, const char *name, mode_t mode, struct str bytes);
// The names in a directory are on the disk when it returns. `dir` is open for reading, no O_PATH.
fallible path_sync(int dir);

// Removes `name` from `dir`, a whole tree if it is one. Links are removed, never followed. However
// deep the tree, two directories are open at a time. What is absent is removed already.
fallible path_remove(int dir, const char *name);

struct path_copied {
	uint64_t files, bytes;
};
// Copies the directory `from` (open) to the existing empty directory `to`: owners, modes, times,
// links and hard links; shared blocks where the file system can. Devices, sockets and pipes are
// left out, and extended attributes. Adds to *sum. NO_SPACE disk_full when the disk is full.
fallible path_copy(int from, int to, struct path_copied *sum);
// The same for one file or link `name`, which must not exist in `to` yet.
fallible path_copy_one(int from, int to, const char *name, struct path_copied *sum);
// The data of one open file, from its start to its end; holes stay holes.
fallible path_copy_data(int from, int to, uint64_t *out_bytes);

// Directories made in `dir` from now on are spread over the disk, where the file system knows how.
// ext4 steps over each inode that was deleted in the last minutes: where trees come and go, a new
// one beside the old ones would be made ten times slower.
void path_spread(int dir);
