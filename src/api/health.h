#pragma once

#include "http/router.h"

// Is cove well? Anybody learns that it lives, the operator how it does.
route_fn api_health;
