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
