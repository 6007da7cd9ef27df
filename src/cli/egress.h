// What a sandbox wanted from outside.
#pragma once

#include "cli/call.h"

fallible cli_egress(struct call *call);
