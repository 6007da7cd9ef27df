// Public access to ports in boxes, by a host name or by a path on a separate listener. Previews
// never share the API's origin, and a token is the only credential.
#pragma once

#include "preview/options.h"

struct preview;

fallible preview_open(const struct preview_options *options, struct preview **out);
// Accepts on a listening socket, and owns it unless it fails; with TLS once there is a certificate.
fallible preview_listen(struct preview *preview, int fd);
// Sets a certificate (with its chain) and its key, both PEM, for new connections. INVALID
// bad_config with the fault, and nothing has changed.
fallible preview_certify(struct preview *preview, struct str cert, struct str key);
// Replaces limits and names.
void preview_bound(struct preview *preview, uint32_t conns_max, struct str names);
void preview_drain(struct preview *preview); // takes NULL, as below
bool preview_is_idle(const struct preview *preview);
void preview_free(struct preview *preview);
