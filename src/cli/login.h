// login and context: named servers with a key each, saved for the user.
#pragma once

#include "cli/call.h"

fallible login_run(struct call *call);
fallible context_ls(struct call *call);
fallible context_use(struct call *call);
fallible context_rm(struct call *call);
