// Time. Deadlines are monotonic milliseconds; the wall clock is only shown. Stored expiry times use
// the steady clock: wall time that advances evenly, whatever the host's clock is set to.
#pragma once

#include <stdint.h>

#include "base/buf.h"

#define CLOCK_NEVER INT64_MAX

int64_t clock_ms(void); // monotonic
int64_t clock_us(void);
int64_t clock_wall_ms(void); // since 1970

int64_t clock_steady_ms(void);	     // since 1970, by the wall clock at its first use
int64_t clock_steady_base(void);     // offset from the time since boot
void clock_steady_set(int64_t base); // as an earlier process of this boot had it
void clock_step(int64_t ms);	     // for tests: shifts the wall clock of this process

// 2026-11-15T02:09:45.123Z
void clock_iso(int64_t wall_ms, struct buf *out);
// Sun, 15 Nov 2026 02:09:45 GMT
void clock_http(int64_t wall_ms, struct buf *out);
// The nearest time that both can write: 1970 to 9999.
int64_t clock_bound(int64_t wall_ms);
