#pragma once

#define DAEMON_RELOADED 1 // to the supervisor: the new settings count. 0: boxes can be made

// The unprivileged process that serves the API: `cove daemon`, started by the supervisor only.
// Returns the exit status.
int daemon_main(int argc, char **argv);
