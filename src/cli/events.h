// Events, audit log, consistency check.
#pragma once

#include "cli/call.h"

fallible events_show(struct call *call);
fallible events_audit(struct call *call);
fallible events_verify(struct call *call);
