// Processes of a sandbox: start, list, read, signal.
#pragma once

#include "cli/body.h"
#include "cli/call.h"
#include "cli/remote.h"

// ps BOX
fallible jobs_list(struct call *call, struct remote *remote, struct cove_box *box);
// exec -d: starts the command and prints its id.
fallible jobs_start(struct call *call, struct remote *remote, struct cove_box *box,
		    const struct body *body);
// exec -i: our stdin is the command's; its output and status become ours.
fallible jobs_talk(struct call *call, struct remote *remote, struct cove_box *box,
		   const struct body *body);
// Shows the output of a process until it ends; its status becomes ours.
fallible jobs_watch(struct call *call, struct remote *remote, struct cove_process *process);
// Output to ours. *err is our own write error, which ends the call that writes: look at it first.
struct cove_sink jobs_sink(struct err **err);
// Whether a process of that id exists. False also when that cannot be found out.
bool jobs_has(struct cove_box *box, const char *id);
