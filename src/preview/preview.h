// The way in for people: a host name, or a path on a listener of its own, becomes a port in a box.
// Nothing here is of the API's origin, and a token is all that is asked for.
#pragma once

#include "preview/options.h"

struct preview;

fallible preview_open(const struct preview_options *options, struct preview **out);
// Accepts on a listening socket, and owns it unless it fails; by TLS once there is a certificate.
fallible preview_listen(struct preview *preview, int fd);
// A certificate (with its chain) and its key, both PEM, for connections from now on. INVALID
// bad_config with what is wrong, and nothing has changed.
fallible preview_certify(struct preview *preview, struct str cert, struct str key);
// Other bounds and names from now on, as in its options.
void preview_bound(struct preview *preview, uint32_t conns_max, struct str names);
void preview_drain(struct preview *preview); // NULL: nothing to do, as below
bool preview_is_idle(const struct preview *preview);
void preview_free(struct preview *preview);
