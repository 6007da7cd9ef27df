// A sandbox for one verb: created, used, and always removed. Without a daemon one is started for
// the same time.
#pragma once

#include "cli/call.h"
#include "cli/remote.h"

typedef fallible temporary_box_fn(struct call *call, struct remote *remote, struct cove_box *box,
				  void *arg);

// Returns the result of `work`. With --keep the sandbox stays, which needs a permanent daemon.
// Ctrl-C cancels the waiting call, and sets call->exit.
fallible temporary_box_run(struct call *call, const struct cove_box_spec *spec,
			   temporary_box_fn *work, void *arg);
