// Whether what was typed is a whole cell, or its writer means to go on. A guess by brackets, quotes
// and colons: what is wrong with code is the interpreter's to say. No I/O.
#pragma once

#include <stdbool.h>

#include "base/str.h"

// `cell` is all lines so far, the last one without its end. In doubt two empty lines end it.
bool is_complete_python(struct str cell);
bool is_complete_script(struct str cell); // JavaScript and TypeScript
