// Features that this host has and lacks, how to fix them, and whether the daemon answers.
#pragma once

#include "cli/call.h"

fallible doctor_look(struct call *call);
