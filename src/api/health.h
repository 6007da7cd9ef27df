#pragma once

#include "http/router.h"

// Health: liveness for everybody, details for the operator.
route_fn api_health;
