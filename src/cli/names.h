// What completions ask for: names of what there is.
#pragma once

#include "cli/call.h"

fallible names_print(struct call *call);
