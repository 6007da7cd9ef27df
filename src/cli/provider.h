// Where the copy of a worktree is and where its command runs. A provider is a row of functions:
// `cove` is the daemon, `daytona` a server that speaks Daytona's API, `local` this host without a
// sandbox. Functions that take a box need it opened.
#pragma once

#include "cli/sync_box.h"

struct provider_owner {
	const char *machine, *identity; // hashes, the second with the path
	const char *worktree;		// the path, for messages
	const char *given;		// --sandbox; NULL: by the identity
};

// A command that outlives its caller.
struct provider_run {
	struct sync_box *box;
	const char *id;
	struct cove_process *process; // of cove
	uint64_t at[2];		      // bytes of stdout and stderr that were read
	struct buf bytes;	      // the last piece
	struct buf next;	      // of stderr, when a reply had both
	bool interrupted;	      // a signal was told
	struct cove_result result;    // once it has ended
};
void provider_run_done(struct provider_run *run);

struct provider {
	const char *name;
	const char *instead; // what a caller may do while it is away; NULL: nothing
	// Reads where it is; the client's remote is open afterwards, if it has one.
	fallible (*connect)(struct sync_box *box, const struct call *call, struct remote *remote);
	// `make` NULL: NOT_FOUND no_sandbox if it is missing. Labels are the only truth: two
	// callers get one sandbox.
	fallible (*open)(struct sync_box *box, const struct provider_owner *owner,
			 const struct cove_box_spec *make);
	fallible (*at)(struct sync_box *box, const char *id); // opens one of list()
	fallible (*list)(struct sync_box *box, const char *machine, struct sync_ids *out);
	fallible (*destroy)(struct sync_box *box); // one that is gone is no error
	sync_box_exec_fn *exec;

	// As sync_box.h says of sync_box_state() and its relatives.
	fallible (*state)(struct sync_box *box, bool begins, struct sync_state *out, bool *found);
	fallible (*keep)(struct sync_box *box, const struct sync_state *state, bool synced);
	fallible (*read)(struct sync_box *box, const struct file_list *base, struct file_list *out);
	fallible (*fetch)(struct sync_box *box, const struct plan *plan);
	fallible (*send)(struct sync_box *box, int root, const struct plan *plan);

	fallible (*start)(struct provider_run *run, const struct cove_command *command,
			  const char *const *argv);
	// The next piece of its output; `result` is set with `ended`. CANCELLED by a signal.
	fallible (*next)(struct provider_run *run, struct cove_piece *out);
	// Ends the whole tree; `interrupt`: by the caller, who waits for its last output.
	fallible (*stop)(struct provider_run *run, bool interrupt);
	bool (*has)(struct sync_box *box, const char *id);
	fallible (*runs)(struct sync_box *box, cove_process_fn *each, void *arg);
};

extern const struct provider provider_cove, provider_daytona, provider_local;

// --provider; INVALID bad_value, or no_local without --allow-local.
fallible provider_choose(const struct call *call, const struct provider **out);
