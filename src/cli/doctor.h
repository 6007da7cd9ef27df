// What this host can and cannot do, what to do about it, and whether the daemon answers.
#pragma once

#include "cli/call.h"

fallible doctor_look(struct call *call);
