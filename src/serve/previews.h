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

// For the supervisor. Certificate and key are read as root and passed to the daemon in a memfd, at
// the start and at each reload. Makes the memfd; INVALID bad_config: a configured file cannot be
// read.
fallible previews_open_cert(const struct config *config, int *out_fd);
// Reads the files again. On failure nothing has changed.
fallible previews_refresh_cert(const struct config *config, int fd);
