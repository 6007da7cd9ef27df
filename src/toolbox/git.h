// Clones a git repository inside the box.
#pragma once

#include "http/router.h"

route_fn toolbox_git_checkout;
