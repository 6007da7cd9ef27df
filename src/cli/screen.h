// A terminal of a sandbox, shown on ours.
#pragma once

#include "cli/call.h"
#include "cli/remote.h"

// Shows it until its program ends (its status becomes ours), or until ctrl-p ctrl-q detaches.
// `with_input`: passes on typed bytes. A lost connection is opened again, and the screen repainted.
fallible screen_run(struct call *call, struct remote *remote, struct cove_box *box,
		    const struct cove_terminal_options *options, bool with_input);
