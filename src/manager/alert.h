// What the operator should look at: a line of the log that also becomes an event.
#pragma once

#include "base/err.h"

// `alert` and `severity` ("warning", "critical") are literals; `box` and `failed` may be NULL. The
// error ends here. The same alert about the same thing is told once, and again only when it holds
// after TIMER_ALERT_QUIET, with how often it came meanwhile.
void alert_tell(const char *alert, const char *severity, const char *what, const char *box,
		struct err *failed);
// It holds no more: the next one is told at once.
void alert_clear(const char *alert, const char *what, const char *box);
