// Time. Deadlines are monotonic milliseconds; only people are shown the wall clock.
#pragma once

#include <stdint.h>

#include "base/buf.h"

#define CLOCK_NEVER INT64_MAX

int64_t clock_ms(void); // monotonic
int64_t clock_us(void);
int64_t clock_wall_ms(void); // since 1970

// 2026-11-15T02:09:45.123Z
void clock_iso(int64_t wall_ms, struct buf *out);
// Sun, 15 Nov 2026 02:09:45 GMT
void clock_http(int64_t wall_ms, struct buf *out);
// The nearest time that both can write: 1970 to 9999.
int64_t clock_bound(int64_t wall_ms);
