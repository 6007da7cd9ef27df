// A daemon that was killed, or left, and cannot die, because a sandbox holds one of its calls up
// (protocol/blocked_call.h). The kernel tells nobody of such a process, so it is looked at now and
// then; the warden is told to end what keeps it.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "serve/child.h"

#define STUCK_LOOK_MS 1000

struct stuck {
	int page;
	bool unheld; // a warden of an earlier image knows nothing of it
	pid_t pid;   // the daemon that was looked at
	bool told;
	int looks; // how often in a row it was found dying
	int64_t sniff_at;
};

// The page: that of the last image, which its daemon still uses, or a new one (`last` 0).
fallible stuck_open(struct stuck *hung, int last);
// What the next image is to take over; 0: a warden does not know of it.
int stuck_page(const struct stuck *hung, const struct child *warden);
void stuck_look(struct stuck *hung, const struct child *daemon, const struct child *warden);
