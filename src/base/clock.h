// Time. Deadlines are monotonic milliseconds; only people are shown the wall clock. What must be
// remembered over restarts, and expires, is held against the steady clock: wall time that goes on
// evenly, whatever the host's clock is set to meanwhile.
#pragma once

#include <stdint.h>

#include "base/buf.h"

#define CLOCK_NEVER INT64_MAX

int64_t clock_ms(void); // monotonic
int64_t clock_us(void);
int64_t clock_wall_ms(void); // since 1970

int64_t clock_steady_ms(void);	     // since 1970, as the wall clock said when it was first asked
int64_t clock_steady_base(void);     // what it adds to the time since the host was booted
void clock_steady_set(int64_t base); // another base: that of an earlier life, same boot
void clock_step(int64_t ms);	     // for tests: the wall clock of this process is set on, or back

// 2026-11-15T02:09:45.123Z
void clock_iso(int64_t wall_ms, struct buf *out);
// Sun, 15 Nov 2026 02:09:45 GMT
void clock_http(int64_t wall_ms, struct buf *out);
// The nearest time that both can write: 1970 to 9999.
int64_t clock_bound(int64_t wall_ms);
