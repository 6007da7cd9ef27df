// Cloudflare's bridge: REST for many sandboxes, for clients that are not Workers. Its own errors,
// {error, code}, and its own ids; the sandboxes are the same as everybody's.
#pragma once

#include "http/router.h"

extern const struct route bridge_routes[]; // ends with a row whose method is NULL
