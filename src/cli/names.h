// Names for completions.
#pragma once

#include "cli/call.h"

fallible names_print(struct call *call);
