#include "base/clock.h"

#include <time.h>

#include "tap.h"

static const char *iso(int64_t ms)
{
	static char text[64];
	auto_buf buf = BUF_INIT(63);

	clock_iso(ms, &buf);
	snprintf(text, sizeof(text), "%s", buf.at);
	return text;
}

TEST(known, "known moments are written as they should")
{
	CHECK_STR(iso(0), "1970-01-01T00:00:00.000Z");
	CHECK_STR(iso(-1), "1969-12-31T23:59:59.999Z");
	CHECK_STR(iso(951782400000), "2000-02-29T00:00:00.000Z");
	CHECK_STR(iso(1794708585123), "2026-11-15T02:09:45.123Z");
	CHECK_STR(iso(4107542400000), "2100-03-01T00:00:00.000Z");
}

TEST(like_libc, "every day of four centuries is the one that libc names")
{
	for (int64_t day = 0; day < 146097; day++) {
		time_t at = (time_t)(day * 86400 + 3661);
		char want[64];
		struct tm tm;

		gmtime_r(&at, &tm);
		strftime(want, sizeof(want), "%Y-%m-%dT%H:%M:%S.007Z", &tm);
		CHECK_STR(iso((int64_t)at * 1000 + 7), want);
	}
}

TEST(forward, "the monotonic clock does not run backwards")
{
	int64_t us = clock_us(), ms = clock_ms();

	for (int i = 0; i < 10000; i++) {
		int64_t now = clock_us();

		CHECK(now >= us);
		us = now;
	}
	CHECK(clock_ms() >= ms && clock_wall_ms() > 1600000000000);
}

TEST(steady, "a wall clock that is set moves the steady one by nothing, another base moves it")
{
	int64_t before = clock_steady_ms(), base = clock_steady_base();

	CHECK(before - clock_wall_ms() < 1000 && clock_wall_ms() - before < 1000);
	clock_step(366ll * 86400000);
	CHECK(clock_wall_ms() - before > 365ll * 86400000);
	CHECK(clock_steady_ms() - before < 1000);
	clock_step(-2 * 366ll * 86400000);
	CHECK(clock_steady_ms() >= before && clock_steady_ms() - before < 1000);
	clock_step(366ll * 86400000);
	clock_steady_set(base + 5000);
	CHECK(clock_steady_ms() - before >= 5000);
}
