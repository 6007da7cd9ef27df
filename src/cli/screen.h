// A terminal of a sandbox, shown on ours.
#pragma once

#include "cli/call.h"
#include "cli/remote.h"

// Shows it until its program ends (its status becomes ours), or until ctrl-p ctrl-q detaches.
// `with_input`: what is typed goes there. A lost connection is made again, and the screen painted
// anew.
fallible screen_run(struct call *call, struct remote *remote, struct cove_box *box,
		    const struct cove_terminal_options *options, bool with_input);
