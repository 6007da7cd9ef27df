// The copy of a worktree in a sandbox: its manifest, its files, changes of it.
#pragma once

#include "cli/remote.h"
#include "sync/plan.h"

#define SYNC_HOME "/workspace"	      // of a sandbox of cove
#define SYNC_PLACED "/dev/shm/.cove-" // links there are files of a run, which never come back

// "left_out" and "special" with a path, "no_base_commit" with a reason.
typedef void sync_box_note_fn(void *arg, const char *event, const char *text);

struct provider;

struct sync_box;
typedef fallible sync_box_exec_fn(struct sync_box *sync, const struct cove_command *command,
				  struct cove_output *out);

struct sync_box {
	const struct provider *provider;
	sync_box_exec_fn *exec; // the provider's
	struct remote *remote;	// NULL: the provider has none
	char *id;		// of the sandbox; NULL: not opened
	char *home;		// the directory of the copy there
	struct cove_box *box;	// of cove
	char *store;		// where this host keeps the manifest, if the provider does not
	int copy;		// a directory of this host with the copy; -1: none
	char *api, *tools;	// of Daytona: paths of the API and of the sandbox's toolbox
	char *user_home;	// of Daytona: the home directory in the sandbox
	uint64_t file_max, count_max;
	int spool;	    // receives contents; -1: not wanted
	char *name, *email; // of commits; NULL: none is known
	uint64_t spooled;
	int64_t sent_at; // time of the files of a sync, seconds since 1970
	sync_box_note_fn *note;
	void *arg;
};

void sync_box_done(struct sync_box *sync);

// Sandboxes and their names: "wt-" and the first digits of the identity.
struct sync_ids {
	char **at, **names;
	size_t count;
};
void sync_ids_add(struct sync_ids *ids, const char *id, const char *name);
void sync_ids_done(struct sync_ids *ids);

// The state that the server keeps; *out_found false: the sandbox was never synced. `begins`: a sync
// follows.
fallible sync_box_state(struct sync_box *sync, bool begins, struct sync_state *out,
			bool *out_found);
// `synced`: the sandbox has nothing more that is to come back.
fallible sync_box_keep(struct sync_box *sync, const struct sync_state *state, bool synced);

// The files that git does not ignore there, and those of `base`. Contents that are not those of
// `base` go to the spool. INVALID bad_name; TOO_LARGE; BAD_PEER bad_archive.
fallible sync_box_read(struct sync_box *sync, const struct file_list *base, struct file_list *out);
// After the first sync: sets the stamps of files of the sandbox that are as they were sent.
fallible sync_box_stamp(struct sync_box *sync, struct file_list *sent);
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
// The same changes as an archive; deletions are not in it.
fallible sync_box_pack(struct sync_box *sync, int root, const struct plan *plan, int to);
// The files of an archive of a whole copy, with their contents in the spool. BAD_PEER bad_archive.
fallible sync_box_unpack(struct sync_box *sync, int from, struct file_list *out);
// Commits all files to the repository in the sandbox, which is made if it is missing. A failure of
// git there is a note: the manifest and not the commit is what the next sync compares with.
// *out_state: a state of the repository that changes with the next change of it; or NULL. The
// caller's.
fallible sync_box_commit(struct sync_box *sync, char **out_state);
bool sync_box_is_committed(const struct sync_box *sync, const char *state);
