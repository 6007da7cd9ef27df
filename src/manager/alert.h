// Alerts for the operator: each is a log line and an event.
#pragma once

#include "base/err.h"

// `alert` and `severity` ("warning", "critical") are literals; `box` and `failed` may be NULL.
// Consumes the error. The same alert about the same object is logged once, and again only if it
// still holds after TIMER_ALERT_QUIET, with the number of repetitions.
void alert_tell(const char *alert, const char *severity, const char *what, const char *box,
		struct err *failed);
// The alert no longer holds: the next one is logged at once.
void alert_clear(const char *alert, const char *what, const char *box);
