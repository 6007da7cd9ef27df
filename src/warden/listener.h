// Where a box listens for its daemon: a socket in RUN/box, bound by the warden before the box is
// built, handed to its pid 1, and reached by the daemon's user alone.
#pragma once

#include <sys/types.h>

#include "base/err.h"

// RUN/box, made when it is absent, the daemon's, open.
fallible box_listener_open_dir(int run, uid_t uid, gid_t gid, int *out_dir);
// A listening SOCK_SEQPACKET socket at RUN/box/`box`; what an earlier life left there is replaced.
fallible box_listener_make(int dir, const char *box, int *out_fd);
void box_listener_drop(int dir, const char *box);
