// The listening socket of a box, RUN/box/ID: bound by the warden before the box is built, passed to
// pid 1, accessible to the daemon's user alone.
#pragma once

#include <sys/types.h>

#include "base/err.h"

// Opens RUN/box, made if absent and owned by the daemon.
fallible box_listener_open_dir(int run, uid_t uid, gid_t gid, int *out_dir);
// A listening SOCK_SEQPACKET socket at RUN/box/`box`. Replaces one that an earlier warden left.
fallible box_listener_make(int dir, const char *box, int *out_fd);
void box_listener_drop(int dir, const char *box);
