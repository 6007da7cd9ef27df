// What previews stand on.
#pragma once

#include "door/guard.h"
#include "door/urls.h"
#include "fleet/fleet.h"
#include "http/server.h"

struct preview_options {
	struct fleet *fleet;
	struct guard *guard;	 // for the names of this host, and for those who guess
	const struct urls *urls; // borrowed, as all of it
	const uint8_t *key;	 // SECRET_HASH bytes: of signed links
	struct pool *pool;	 // of connections to servers in boxes; preview_open() sets it
	struct http_limits limits;
};
