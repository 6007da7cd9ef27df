// Fault injection (agent/faults.h) over HTTP: refused without --dev.
#pragma once

#include "http/http.h"

fallible api_dev_set(struct http *x);
fallible api_dev_list(struct http *x);
fallible api_dev_clear(struct http *x);
fallible api_dev_clock(struct http *x); // {stepMs, back?}
