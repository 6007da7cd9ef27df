// cp: files and trees between this host and a sandbox.
#pragma once

#include "cli/call.h"

fallible copy_cp(struct call *call);
