// Providers without a server that keeps the manifest: this host keeps it, in a directory of
// ~/.local/state/cove for each worktree, and their copy of the worktree is, or is fetched as, a
// directory here.
#pragma once

#include "cli/provider.h"

// The directory of a provider, made if it is missing; the caller's.
fallible provider_copy_base(const char *provider, char **out);
// Sets box->store to the directory of a worktree in it.
fallible provider_copy_store(struct sync_box *box, const char *name);
// A line of a file there; NULL: it is missing. The caller's.
char *provider_copy_line(const char *store, const char *file);

fallible provider_copy_state(struct sync_box *box, bool begins, struct sync_state *out,
			     bool *found);
fallible provider_copy_keep(struct sync_box *box, const struct sync_state *state, bool synced);
// box->copy as sync_box_read() lists a sandbox.
fallible provider_copy_read(struct sync_box *box, const struct file_list *base,
			    struct file_list *out);
fallible provider_copy_fetch(struct sync_box *box, const struct plan *plan);
// The contents that a plan needs, of a directory, in the spool; each has to be as it was compared.
fallible provider_copy_spool(struct sync_box *box, int root, const struct plan *plan);
