// The egress ledger of a sandbox.
#pragma once

#include "cli/call.h"

fallible cli_egress(struct call *call);
