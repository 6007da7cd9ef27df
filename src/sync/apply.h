// Changes a worktree as a plan says, all or nothing. Blocks.
#pragma once

#include "sync/plan.h"

// `spool` has the content of each written file. Every new file is complete in a directory of the
// worktree before the first change; each change is one rename beneath `root`, through no symbolic
// link; a failure undoes all of them. A file that is not as the plan says is a failure: CONFLICT
// sync_conflict; INVALID cannot_apply.
fallible apply_plan(int root, int spool, const struct plan *plan);
// Removes what a killed sync left. The caller holds the lock of the worktree.
fallible apply_clean(int root);
