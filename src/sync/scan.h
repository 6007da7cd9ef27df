// The manifest of a worktree: what git tracks or does not ignore. Git's rules are applied by our
// own code: no program, hook, filter or helper of a repository runs. Blocks.
#pragma once

#include "sync/file_list.h"

enum scan_note {
	SCAN_SPECIAL,	 // a device, socket or FIFO is left out
	SCAN_REPOSITORY, // the `.git` of a nested repository or submodule is left out
};
typedef void scan_note_fn(void *arg, enum scan_note note, const char *path);

struct scan_options {
	uint64_t file_max; // bytes of one file
	uint64_t count_max;
	scan_note_fn *note;
	void *arg;
	// A file with the stamp of this host that it has here is not read. NULL: all are.
	const struct file_list *known;
};

// Lists the directory `root`, sorted. TOO_LARGE sync_file_too_large, sync_too_many_files; INVALID
// cannot_scan; bad_index; NOT_OFFERED split_index.
fallible scan_worktree(int root, const struct scan_options *options, struct file_list *out);
// Fills in a file or link of a directory; `path` is for messages. *found: false if absent or of
// another type. Content beyond `file_max` is not read: TOO_LARGE.
fallible scan_file(int dir, const char *name, const char *path, uint64_t file_max,
		   struct listed_file *out, bool *found);
// The name and the address of commits, as git's configuration has them: the caller's. They are
// unchanged where it has none.
fallible scan_identity(int root, char **out_name, char **out_email);
