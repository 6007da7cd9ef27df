// LIMIT: new limits for a box that exists. A box that runs gets them in its cgroups and on its
// disk, one that does not on its disk alone. What may take long runs in a child: the kernel's
// freeing pages when memory shrinks, and a disk that is written out or resized.
//
// Each step is checked by the kernel's own numbers and refused below what is in use. An order that
// is refused halfway leaves the steps before as they are: the daemon then orders the former limits,
// which always fit.
#pragma once

#include "warden/box.h"

fallible limit_order(struct warden *warden, const struct order *order);
// A child ended: true if it was one of ours.
bool limit_reaped(struct warden *warden, int pid, int status);
// Ends children that take too long. Returns when to call again, like teardown_turn().
int64_t limits_turn(struct warden *warden);
// The daemon is gone: nothing more is changed.
void limits_forget(struct warden *warden);
