#include "types/timers.h"

#include "tap.h"

TEST(all, "every timer has a name of its own, a time and a meaning")
{
	for (int i = 0; i < TIMER_COUNT; i++) {
		const struct timer_row *row = timer_row((enum timer_name)i);

		CHECK(row->name && row->what && row->otherwise_ms > 0);
		for (int k = 0; k < i; k++)
			CHECK(strcmp(row->name, timer_row((enum timer_name)k)->name) != 0);
	}
}

TEST(registry, "every timer has its default")
{
	CHECK(timer_ms(TIMER_STARTUP) == 600000 && timer_ms(TIMER_READY) == 60000);
	CHECK(timer_ms(TIMER_KEEP_WARM) == 300000 && timer_ms(TIMER_STOP_ATTEMPT) == 45000);
	CHECK(timer_ms(TIMER_STOP_BACKOFF_1) == 5000 && timer_ms(TIMER_STOP_BACKOFF_2) == 30000);
	CHECK(timer_ms(TIMER_STOP_BACKOFF_3) == 120000 && timer_ms(TIMER_STOP_BACKOFF_4) == 300000);
	CHECK(timer_ms(TIMER_RECHECK) == 600000 && timer_ms(TIMER_RECHECK_SPAN) == 3600000);
	CHECK(timer_ms(TIMER_PING) == 60000 && timer_ms(TIMER_PONG) == 30000);
	CHECK(timer_ms(TIMER_NO_OUTPUT) == 300000 && timer_ms(TIMER_GRACE) == 10000);
	CHECK(timer_ms(TIMER_RETENTION) == 90ll * 24 * 3600 * 1000);
}

TEST(order, "an outer timer is longer than the inner ones")
{
	int64_t looks = timer_ms(TIMER_OBSERVE_1) + timer_ms(TIMER_OBSERVE_2) +
			timer_ms(TIMER_OBSERVE_3);

	CHECK(timer_ms(TIMER_STOP_ATTEMPT) > timer_ms(TIMER_INSPECTION) + looks);
	CHECK(timer_ms(TIMER_NO_OUTPUT) > timer_ms(TIMER_PING) + timer_ms(TIMER_PONG));
	CHECK(timer_ms(TIMER_STALE) > 2 * timer_ms(TIMER_HEARTBEAT));
	CHECK(timer_ms(TIMER_STUCK) > timer_ms(TIMER_ORPHAN));
}

TEST(scale, "one factor divides them all, and never down to nothing")
{
	timers_scale(60);
	CHECK(timers_scale_now() == 60);
	CHECK(timer_ms(TIMER_KEEP_WARM) == 5000 && timer_ms(TIMER_READY) == 1000);
	timers_scale(TIMER_SCALE_MAX);
	for (int i = 0; i < TIMER_COUNT; i++)
		CHECK(timer_ms((enum timer_name)i) >= 1);
	timers_scale(1);
}

TEST(chosen, "what the operator set is not scaled")
{
	timer_set(TIMER_RETENTION, 5000);
	timers_scale(60);
	CHECK(timer_ms(TIMER_RETENTION) == 5000);
	timer_set(TIMER_RETENTION, 0);
	timers_scale(1);
	CHECK(timer_ms(TIMER_RETENTION) == 90ll * 24 * 3600 * 1000);
}
