// What the operator should look at: a line of the log that also becomes an event.
#pragma once

#include "base/err.h"

// `alert` and `severity` ("warning", "critical") are literals; `box` and `failed` may be NULL. The
// error ends here.
void alert_tell(const char *alert, const char *severity, const char *what, const char *box,
		struct err *failed);
