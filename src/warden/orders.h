// The table of permitted orders: what a daemon may ask, and in which phase. A malformed or
// forbidden order ends the connection, because such a daemon is compromised.
#pragma once

#include "warden/box.h"

// Reads and executes orders from the daemon's socket, a few at a time. False: the connection is
// over.
bool orders_read(struct warden *warden);
// An import or a copy ended in a child. Sends its answer, unless its daemon is gone.
void orders_finish_long(struct warden *warden, const struct answer *answer);
// Goes on with kills that need several rounds, and ends orders that take too long. Returns when to
// call again, like teardown_turn().
int64_t orders_turn(struct warden *warden);
// The daemon is gone: nothing is owed to it any more.
void orders_forget(struct warden *warden);
