// State of the monitor, for the files of this folder.
#pragma once

#include "monitor/monitor.h"
#include "monitor/rates.h"
#include "monitor/view.h"

struct monitor {
	struct monitor_options options;
	struct rates *rates;
	struct alerts *alerts;
	struct history *history;
	int64_t warden_since; // loop time since when there is no warden; 0: there is one
	int64_t started_wall_ms;
};

// In view.c's terms: now.
void monitor_look(struct monitor *monitor, struct view *out);
