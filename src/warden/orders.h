// The table of permitted orders: what a daemon may ask, and when. An order that is malformed, or
// not permitted in its phase, ends the connection: a daemon that sends one is no longer ours.
#pragma once

#include "warden/box.h"

// Reads and answers what the daemon's socket has, a few at a time. False: the connection is over.
bool orders_read(struct warden *warden);
// An import or a copy ended in a child; its answer is due unless its daemon is gone.
void orders_finish_long(struct warden *warden, const struct answer *answer);
// Goes on with kills that need several strokes, and ends what takes too long. Returns when to come
// again, as teardown_turn() does.
int64_t orders_turn(struct warden *warden);
// The daemon is gone: nothing is owed to it any more.
void orders_forget(struct warden *warden);
