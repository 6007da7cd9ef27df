// Cloudflare's bridge: a REST API for many sandboxes, for clients that are not Workers. It has its
// own errors, {error, code}, and its own ids; the sandboxes are ordinary ones.
#pragma once

#include "http/router.h"

extern const struct route cloudflare_routes[]; // ends with a row whose method is NULL
