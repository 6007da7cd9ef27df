#pragma once

// The unprivileged process that serves the API: `cove daemon`, started by the supervisor only.
// Returns the exit status.
int daemon_main(int argc, char **argv);
