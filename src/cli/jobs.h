// Processes of a sandbox: started, listed, read, signalled.
#pragma once

#include "cli/body.h"
#include "cli/call.h"
#include "cli/remote.h"

fallible jobs_logs(struct call *call);
fallible jobs_kill(struct call *call);
// ps BOX
fallible jobs_list(struct call *call, struct remote *remote, struct cove_box *box);
// exec -d: starts the command and prints its id.
fallible jobs_start(struct call *call, struct remote *remote, struct cove_box *box,
		    const struct body *body);
// exec -i: our stdin is the command's as it comes, its output and status are ours.
fallible jobs_talk(struct call *call, struct remote *remote, struct cove_box *box,
		   const struct body *body);
// Shows what a process writes until it ends; its status becomes ours.
fallible jobs_watch(struct call *call, struct remote *remote, struct cove_process *process);
// Is there one of that id? False also when it cannot be told.
bool jobs_has(struct cove_box *box, const char *id);
