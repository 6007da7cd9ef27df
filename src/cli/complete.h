// Completion for three shells, made from the table of verbs. What only the daemon knows, the names
// of sandboxes and templates, the scripts ask for with the hidden verb `cove words`.
#pragma once

#include "base/buf.h"
#include "cli/call.h"

// "bash", "zsh" or "fish"; INVALID unknown_shell.
fallible complete_script(const struct grammar *grammar, const char *shell, struct buf *out);
