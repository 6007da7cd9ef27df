// A sandbox for the time of one verb: made, worked in, and removed whatever happens. Where no
// daemon runs there is one for as long, too.
#pragma once

#include "cli/call.h"
#include "cli/remote.h"

typedef fallible temporary_box_fn(struct call *call, struct remote *remote, struct cove_box *box,
				  void *arg);

// What `work` says. With --keep the sandbox stays, which needs a daemon that does. Ctrl-C cancels
// the call that waits, and call->exit says so.
fallible temporary_box_run(struct call *call, const struct cove_box_spec *spec,
			   temporary_box_fn *work, void *arg);
