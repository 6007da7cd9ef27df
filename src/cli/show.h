// Files in a sandbox, listed and shown.
#pragma once

#include "cli/call.h"

fallible show_ls(struct call *call);
fallible show_cat(struct call *call);
