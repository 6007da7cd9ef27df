// The native API: one table of routes. A handler decodes, calls manager/ or agent/, and encodes.
#pragma once

#include "http/router.h"

extern const struct route api_routes[]; // ends with a row whose method is NULL
