// What previews stand on.
#pragma once

#include "gateway/authenticate.h"
#include "gateway/urls.h"
#include "http/server.h"
#include "manager/manager.h"

struct preview_options {
	struct manager *manager;
	struct authenticate *guard; // for the names of this host, and for those who guess
	const struct urls *urls;    // borrowed, as all of it
	const uint8_t *key;	    // SECRET_HASH bytes: of signed links
	struct pool *pool;	    // of connections to servers in boxes; preview_open() sets it
	struct http_limits limits;
};
