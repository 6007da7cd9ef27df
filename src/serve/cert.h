// The certificate and key of previews: read by the supervisor as root, and passed to the daemon in
// a memfd, at the start and at each reload.
#pragma once

#include "base/buf.h"
#include "serve/config.h"

// Makes the memfd. INVALID bad_config: a configured file cannot be read.
fallible cert_open(const struct config *config, int *out_fd);
// Reads the files again. On failure nothing has changed.
fallible cert_refresh(const struct config *config, int fd);
// For the daemon. Appends both; both stay empty when there is none.
fallible cert_take(int fd, struct buf *cert, struct buf *key);
