// A killed daemon that cannot exit, because a system call of it is blocked by a sandbox.
#pragma once

#include "base/err.h"
#include "protocol/blocked_call.h"
#include "warden/box.h"

// The page of protocol/blocked_call.h, made by the supervisor. Takes over the descriptor.
fallible blocked_open(struct warden *warden, int fd);
// The supervisor says that the daemon cannot exit: ends the sandboxes that block it.
void blocked_end(struct warden *warden, enum blocked_call_where where);
