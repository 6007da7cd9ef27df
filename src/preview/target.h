// Resolves a request to a port of a box, checks its token, and relays it.
#pragma once

#include "preview/options.h"

struct target {
	const struct preview_options *options;
	bool tls; // the connection uses TLS
};

// For http_server_open(), with a struct target as the app.
void target_serve(struct http *x);
void target_refuse(struct http *x, struct err *err);
