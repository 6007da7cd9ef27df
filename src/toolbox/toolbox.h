// Inside one sandbox: Cloudflare's container API and what cove adds to it, one table of routes
// under /v1/sandboxes/{id}. A handler decodes, calls the fleet, and encodes.
#pragma once

#include "http/router.h"

extern const struct route toolbox_routes[]; // ends with a row whose method is NULL
