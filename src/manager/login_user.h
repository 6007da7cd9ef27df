// The user that a create wants to exist: added to a sandbox whose image names no user and has none
// of that name, with a home directory of its own.
#pragma once

#include "manager/table.h"

#define LOGIN_USER_ID 1000

// Makes it the user of the sandbox, and its home the directory where commands begin, unless the
// record names others. Called during create, before any command runs. Waits.
fallible login_user_apply(struct entry *entry);
