// A conversation with an interpreter on our terminal: a line is read, and what is whole is run.
#pragma once

#include "cli/call.h"
#include "cli/snippet.h"

// Until ctrl-d. `snippet` has its context, in which the cells run.
fallible repl_talk(struct call *call, struct snippet *snippet);
