#pragma once

#define DAEMON_RELOADED                                                                            \
	1 // byte to the supervisor: the new settings are in use. 0: boxes can be created

// The unprivileged process that serves the API: `cove daemon`, started by the supervisor only.
// Returns the exit status.
int daemon_main(int argc, char **argv);
