// An interactive prompt of an interpreter on our terminal.
#pragma once

#include "cli/call.h"
#include "cli/snippet.h"

// Runs until ctrl-d, in the context of `snippet`.
fallible repl_talk(struct call *call, struct snippet *snippet);
