#include "base/window.h"

#include "tap.h"

#define MINUTE 60000ll

static bool is_near(double got, double want)
{
	return got >= want / 1.19 && got <= want * 1.19;
}

TEST(quantiles, "quantiles are off by less than a bucket")
{
	struct window *window = window_new();
	int64_t now = 1000 * MINUTE;

	CHECK(window_quantile(window, WINDOW_DAY, now, 0.5) < 0);
	for (int i = 1; i <= 10000; i++)
		window_add(window, now, now - i, i);
	for (int span = 0; span < WINDOW_COUNT; span++) {
		CHECK(window_samples(window, (enum window_span)span, now) == 10000);
		CHECK(is_near(window_quantile(window, (enum window_span)span, now, 0.5), 5000));
		CHECK(is_near(window_quantile(window, (enum window_span)span, now, 0.95), 9500));
		CHECK(is_near(window_quantile(window, (enum window_span)span, now, 0.99), 9900));
	}
	window_free(window);
}

TEST(spans, "a sample leaves each window in its time")
{
	struct window *window = window_new();
	int64_t now = 100000 * MINUTE;

	window_add(window, now, now, 1);
	CHECK(window_samples(window, WINDOW_MINUTES, now + 4 * MINUTE) == 1);
	CHECK(window_samples(window, WINDOW_MINUTES, now + 6 * MINUTE) == 0);
	CHECK(window_samples(window, WINDOW_HOUR, now + 58 * MINUTE) == 1);
	CHECK(window_samples(window, WINDOW_HOUR, now + 62 * MINUTE) == 0);
	CHECK(window_samples(window, WINDOW_DAY, now + 1400 * MINUTE) == 1);
	CHECK(window_samples(window, WINDOW_DAY, now + 1500 * MINUTE) == 0);
	window_add(window, now, now - 2000 * MINUTE, 1);
	window_add(window, now, now + MINUTE, 1);
	CHECK(window_samples(window, WINDOW_DAY, now) == 1);
	window_free(window);
}
