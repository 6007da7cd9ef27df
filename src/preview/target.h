// Which port of which box a visitor means, whether the token opens it, and the visit itself.
#pragma once

#include "preview/options.h"

struct target {
	const struct preview_options *options;
	bool tls; // the visitor's connection is
};

// For http_server_open(), with a struct entrance as the house.
void target_serve(struct http *x);
void target_refuse(struct http *x, struct err *err);
