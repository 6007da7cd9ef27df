// The janitor, as routes.
#pragma once

#include "http/router.h"

route_fn api_cleanup_run, api_cleanup_look;
