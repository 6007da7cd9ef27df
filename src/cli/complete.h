// Completions for three shells, generated from the table of verbs. Names of sandboxes and templates
// come from the hidden verb `cove words`.
#pragma once

#include "base/buf.h"
#include "cli/call.h"

// "bash", "zsh" or "fish"; INVALID unknown_shell.
fallible complete_script(const struct grammar *grammar, const char *shell, struct buf *out);
