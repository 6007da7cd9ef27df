// A daemon that was killed and does not die, because a sandbox holds one of its calls up.
#pragma once

#include "base/err.h"
#include "model/hold.h"
#include "warden/cell.h"

// The page of model/hold.h, which the supervisor has made; the descriptor is taken over.
fallible held_open(struct warden *warden, int fd);
// The supervisor's word that the daemon cannot die: ends the sandboxes that keep it.
void held_end(struct warden *warden, enum hold_where where);
