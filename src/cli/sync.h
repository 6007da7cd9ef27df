// A worktree of this host and the sandbox that belongs to it, for verbs that sync.
#pragma once

#include "cli/sync_box.h"

#define SYNC_FAILED 2 // exit status of every failure

struct sync {
	struct call *call;
	struct remote remote;
	struct sync_box to;
	char *path; // real path of the worktree
	int root;   // -1: not opened
	char machine[SHA256_HEX + 1], identity[SHA256_HEX + 1];
	struct sync_state state;
	bool was_synced, is_silent;
	struct file_list host, found;
	size_t changed, deleted; // by the last sync
	uint64_t sending;	 // bytes that a sync in has begun to send
};
void sync_done(struct sync *sync);
#define auto_sync on_exit_call(sync_done) struct sync

// Reads the limits of --max-file and --max-files. sync_done() in every case.
fallible sync_begin(struct sync *sync, struct call *call);
// --worktree, else the repository around the current directory, else that.
fallible sync_find_worktree(struct sync *sync);
fallible sync_connect(struct sync *sync);
// A lock lets one process at a time sync a worktree; it removes what a killed sync left.
fallible sync_lock(struct sync *sync);
void sync_unlock(struct sync *sync);
// --sandbox, else that of the worktree. `make`: created so if it is missing; NULL: NOT_FOUND
// no_sandbox.
fallible sync_open_box(struct sync *sync, const struct cove_box_spec *make);
// Under the lock. CONFLICT sync_conflict: the paths were told, and nothing was changed.
// INVALID two_ways: --ours, --theirs and --full exclude each other.
fallible sync_check_ways(const struct call *call);
fallible sync_in(struct sync *sync);
fallible sync_out(struct sync *sync);
// Adds how to try again. Returns the error.
fallible sync_hint(const struct sync *sync, bool in, struct err *err);

// "[sandbox:EVENT] text" on stderr, or {"event": EVENT, key: text} with --json.
void sync_tell(const struct sync *sync, const char *event, const char *key, const char *text);
// The counts of a sync that has ended, as "[sandbox:done] …"; false with --json: nothing is told.
bool sync_tell_counts(const struct sync *sync);
void sync_put_path(struct json_out *out, const char *path);

// The sandboxes of worktrees of this machine.
fallible sync_list(struct sync *sync, struct sync_ids *out);
// sync_open_owner() takes a sandbox of the list, and the path of its worktree, which may be gone;
// sync_open_root() opens that worktree.
fallible sync_open_owner(struct sync *sync, const char *id);
fallible sync_open_root(struct sync *sync);
