// The copy of a worktree in a sandbox: its manifest, its files, changes of it.
#pragma once

#include "cli/remote.h"
#include "sync/plan.h"

#define SYNC_HOME "/workspace"
#define SYNC_PLACED "/dev/shm/.cove-" // links there are files of a run, which never come back

// "left_out" and "special" with a path, "no_base_commit" with a reason.
typedef void sync_box_note_fn(void *arg, const char *event, const char *text);

struct sync_box {
	struct remote *remote;
	struct cove_box *box;
	uint64_t file_max, count_max;
	int spool;	    // receives contents; -1: not wanted
	char *name, *email; // of commits; NULL: none is known
	uint64_t spooled;
	sync_box_note_fn *note;
	void *arg;
};

// The state that the server keeps; *out_found false: the sandbox was never synced. `begins`: a sync
// follows.
fallible sync_box_state(struct sync_box *sync, bool begins, struct sync_state *out,
			bool *out_found);
// `synced`: the sandbox has nothing more that is to come back.
fallible sync_box_keep(struct sync_box *sync, const struct sync_state *state, bool synced);

// The files that git does not ignore there, and those of `base`. Contents that are not those of
// `base` go to the spool. INVALID bad_name; TOO_LARGE; BAD_PEER bad_archive.
fallible sync_box_read(struct sync_box *sync, const struct file_list *base, struct file_list *out);
// Fetches contents that a plan needs and that sync_box_read() left out.
fallible sync_box_fetch(struct sync_box *sync, const struct plan *plan);
// Tells each FIFO, socket and device of the copy that git does not ignore, and counts them: they do
// not travel. A sandbox without find or git has none.
fallible sync_box_special(struct sync_box *sync, size_t *out_count);
// Before the first sync: gives the directory of the copy to the sandbox's user, who may not be
// root.
fallible sync_box_own(struct sync_box *sync);
// Makes the changes, with the contents of the worktree. CONFLICT sync_conflict: a file changed
// meanwhile.
fallible sync_box_send(struct sync_box *sync, int root, const struct plan *plan);
// Commits all files to the repository in the sandbox, which is made if it is missing. A failure of
// git there is a note: the manifest and not the commit is what the next sync compares with.
fallible sync_box_commit(struct sync_box *sync);
