// Ports of sandboxes: list, expose, open.
#pragma once

#include "cli/call.h"

fallible ports_list(struct call *call);
fallible ports_expose(struct call *call);
fallible ports_unexpose(struct call *call);
fallible ports_open(struct call *call);
