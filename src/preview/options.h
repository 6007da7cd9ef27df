// Configuration of previews.
#pragma once

#include "gateway/authenticate.h"
#include "gateway/urls.h"
#include "http/server.h"
#include "manager/manager.h"

struct preview_options {
	struct manager *manager;
	struct authenticate *auth;	// for this host's names, and for counting failures
	const struct authenticate *api; // for keys of the API
	const struct urls *urls;	// all pointers are borrowed
	const uint8_t *key;		// SECRET_HASH bytes, for signed links
	struct pool *pool;		// connections to servers in boxes; preview_open() sets it
	struct http_limits limits;
};
