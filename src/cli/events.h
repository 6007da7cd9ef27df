// What happened, who did it, and whether all of it is true: events, audit, verify.
#pragma once

#include "cli/call.h"

fallible events_show(struct call *call);
fallible events_audit(struct call *call);
fallible events_verify(struct call *call);
