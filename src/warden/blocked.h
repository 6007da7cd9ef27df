// A daemon that was killed and does not die, because a sandbox holds one of its calls up.
#pragma once

#include "base/err.h"
#include "protocol/blocked_call.h"
#include "warden/box.h"

// The page of protocol/blocked_call.h, which the supervisor has made; the descriptor is taken over.
fallible blocked_open(struct warden *warden, int fd);
// The supervisor's word that the daemon cannot die: ends the sandboxes that keep it.
void blocked_end(struct warden *warden, enum blocked_call_where where);
