// Quantiles of a measure over the last minutes and hours: counts in buckets that grow by a factor
// of the fourth root of 2, in rings of slots. An answer is off by less than one bucket (19 %).
// Takes 60 KB however much is recorded. No clock: times are given, and need not be in order.
#pragma once

#include <stdint.h>

// clang-format off
//	  WINDOW_  word    span in ms    slots
#define WINDOWS(X) \
	X(MINUTES, "5m",   300000,       30) \
	X(HOUR,    "1h",   3600000,      60) \
	X(DAY,     "24h",  86400000,     96)
// clang-format on
enum window_span {
#define X(name, word, ms, slots) WINDOW_##name,
	WINDOWS(X)
#undef X
		WINDOW_COUNT
};
const char *window_word(enum window_span span);

struct window;
struct window *window_new(void);
void window_free(struct window *window);

// `value` at the time `at_ms`, seen at `now_ms`: one that is older than a span is not in that span.
void window_add(struct window *window, int64_t now_ms, int64_t at_ms, double value);
uint64_t window_samples(struct window *window, enum window_span span, int64_t now_ms);
// The value that the part `quantile` (0 to 1) of the samples does not exceed; -1: there are none.
double window_quantile(struct window *window, enum window_span span, int64_t now_ms,
		       double quantile);
