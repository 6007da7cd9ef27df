// Paths and trees beneath open directories. The kernel resolves every path; no strings are joined.
// Everything here blocks: for the warden and its children.
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"

// Opens `path` beneath the directory `root`. A path that leads outside, by "..", a leading slash or
// a symlink, is FORBIDDEN path_escape; a missing one is NOT_FOUND no_file. The caller owns *out_fd,
// which is untouched on failure.
fallible path_open(int root, const char *path, int flags, int *out_fd);

// The directory `name` in `dir`, made with exactly `mode` if absent. A symlink or a file of that
// name is an error.
fallible path_dir(int dir, const char *name, mode_t mode, int *out_fd);
// Appends a whole file to `out`; TOO_LARGE beyond its ceiling.
fallible path_read(int dir, const char *name, struct buf *out);
// Replaces `name` with a file of exactly `mode`. It is written as "NAME~" and renamed: a reader,
// and the next start after a kill, finds the old file or the new one, whole.
fallible path_write(int dir, const char *name, mode_t mode, const char *text);
// The same, durable: file and name are synced when it returns. For every file of cove that is not
// made again at each boot.
fallible path_write_sync(int dir, const char *name, mode_t mode, struct str bytes);
// Syncs a directory. `dir` is open for reading, not O_PATH.
fallible path_sync(int dir);

// The entries of the directory `name` in `dir`; NULL with errno. A symlink is not followed.
DIR *path_list(int dir, const char *name);
void path_list_close(DIR **list);
#define auto_dir on_exit_call(path_list_close) DIR *
// The next entry that is not "." or ".."; NULL at the end, with errno 0, or on failure.
struct dirent *path_next(DIR *list);

// Removes `name` from `dir`, with its whole tree. Symlinks are removed, never followed. At any
// depth only two directories are open. OK if absent.
fallible path_remove(int dir, const char *name);

struct path_copied {
	uint64_t files, bytes;
};
// Copies the directory `from` (open) to the existing empty directory `to`: owners, modes, times,
// links and hard links; shared blocks where the file system can. Devices, sockets and pipes are
// left out, and extended attributes. Adds to *sum. NO_SPACE disk_full when the disk is full.
fallible path_copy(int from, int to, struct path_copied *sum);
// The same as path_copy() with hard links instead of copies: only directories are made, with the
// extended attributes of users. A file with as many links as the file system allows is copied.
fallible path_link(int from, int to, struct path_copied *sum);
// The same with whiteouts (character devices 0:0), named pipes and the extended attributes of users
// and of overlays: the upper directory of an overlay, and the overlay over the copy shows the same.
fallible path_copy_whole(int from, int to, struct path_copied *sum);
// The same for one file or symlink `name`, which must not exist in `to`.
fallible path_copy_one(int from, int to, const char *name, struct path_copied *sum);
// The data of one open file, from its start to its end; holes stay holes.
fallible path_copy_data(int from, int to, uint64_t *out_bytes);

// Spreads new directories in `dir` over the disk, where the file system supports it. ext4 skips
// inodes that were deleted in the last minutes: beside recently removed trees, making a new one is
// ten times slower.
void path_spread(int dir);
