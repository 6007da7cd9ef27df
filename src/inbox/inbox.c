#include "inbox/inbox.h"

#include "inbox/exec.h"

#define BOX "/v1/sandboxes/{id}"

// A literal stands before a {name} that would match it.
// clang-format off
const struct route inbox_routes[] = {
	{"POST",   BOX "/api/execute",          inbox_exec_run,      0,            "run a command, answer when it has ended"},
	{"POST",   BOX "/api/execute/stream",   inbox_exec_stream,   0,            "run a command, its output as events"},
	{0},
};
// clang-format on
