// Routes of the janitor: run a cleanup round, show the last one.
#pragma once

#include "http/router.h"

route_fn api_cleanup_run, api_cleanup_look;
