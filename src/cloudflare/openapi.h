#pragma once

#include "http/router.h"

// docs/openapi.json, as OpenAPI 3.1.
route_fn cloudflare_openapi;
