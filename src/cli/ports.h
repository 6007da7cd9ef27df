// Ports of sandboxes: which there are, and who may look at them.
#pragma once

#include "cli/call.h"

fallible ports_list(struct call *call);
fallible ports_expose(struct call *call);
fallible ports_unexpose(struct call *call);
fallible ports_open(struct call *call);
