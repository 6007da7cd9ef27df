#pragma once

#include "http/router.h"

// What there is, as OpenAPI 3.1, made of the table of routes.
route_fn bridge_about;
