// The API inside one sandbox: Cloudflare's container API and cove's additions, one table of routes
// under /v1/sandboxes/{id}. A handler decodes, calls manager/, and encodes.
#pragma once

#include "http/router.h"

extern const struct route toolbox_routes[]; // ends with a row whose method is NULL
