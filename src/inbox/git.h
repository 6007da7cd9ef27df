// Repositories: a clone made inside the box.
#pragma once

#include "http/router.h"

route_fn inbox_git_checkout;
