// The certificate of previews and its key: read by the supervisor, which may, and handed to the
// daemon in a file without a name, at the start and at each reload.
#pragma once

#include "base/buf.h"
#include "serve/config.h"

// Makes the file. INVALID bad_config: a file that the configuration names cannot be read.
fallible cert_open(const struct config *config, int *out_fd);
// Reads them anew. On failure all is as it was.
fallible cert_refresh(const struct config *config, int fd);
// The daemon's. Both are appended; both stay empty when there is none.
fallible cert_take(int fd, struct buf *cert, struct buf *key);
