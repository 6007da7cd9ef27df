// Whether the typed text is a complete cell. A guess by brackets, quotes and colons. No I/O.
#pragma once

#include <stdbool.h>

#include "base/str.h"

// `cell` is all lines so far, the last one without its newline. If in doubt two empty lines end it.
bool is_complete_python(struct str cell);
bool is_complete_script(struct str cell); // JavaScript and TypeScript
