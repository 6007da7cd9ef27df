// A killed daemon that cannot exit, because a box blocks one of its calls
// (protocol/blocked_call.h). The kernel has no notification for this, so the process is polled; the
// warden is told to end the box.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "serve/child.h"

#define STUCK_LOOK_MS 1000

struct stuck {
	int page;
	bool unheld; // the warden of an earlier image does not know the page
	pid_t pid;   // the daemon that was polled
	bool told;
	int looks; // polls in a row in which it was dying
	int64_t look_at_ms;
};

// The shared page: of the last image, whose daemon still uses it, or a new one (`last` 0).
fallible stuck_open(struct stuck *hung, int last);
// The page for the next image; 0: the warden does not know it.
int stuck_page(const struct stuck *hung, const struct child *warden);
void stuck_look(struct stuck *hung, const struct child *daemon, const struct child *warden);
