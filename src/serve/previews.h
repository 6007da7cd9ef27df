// Previews as configured.
#pragma once

#include "gateway/gateway.h"
#include "preview/preview.h"
#include "serve/config.h"

// Fills gateway->urls and opens the listeners; *out is NULL when there are none. INVALID
// bad_config.
fallible previews_open(const struct config *config, struct gateway *gateway, struct preview **out);
// Loads the certificate again. An error is logged, and the old one stays.
void previews_reload(const struct config *config, struct gateway *gateway, struct preview *preview);
