#include "types/alert.h"

#include "tap.h"

#define QUIET 3600000
#define SECOND 1000

static enum alert_notice step(struct alert *alert, int holds, int64_t for_ms, int64_t now)
{
	struct alert_seen seen = {.known = holds >= 0, .holds = holds > 0, .value = holds};
	enum alert_notice notice;

	alert_step(alert, &seen, for_ms, QUIET, now, &notice);
	return notice;
}

TEST(pending, "a condition that ends before its time never fires")
{
	struct alert alert = {0};

	CHECK(step(&alert, 1, 60 * SECOND, 1000) == ALERT_NO_NOTICE &&
	      alert.state == ALERT_PENDING);
	CHECK(step(&alert, 1, 60 * SECOND, 60000) == ALERT_NO_NOTICE &&
	      alert.state == ALERT_PENDING);
	CHECK(step(&alert, 0, 60 * SECOND, 60500) == ALERT_NO_NOTICE &&
	      alert.state == ALERT_INACTIVE);
	CHECK(!alert.fired_ms && !alert.quiet_ms);
}

TEST(once, "an alert fires once, and is resolved after two good evaluations")
{
	struct alert alert = {0};

	CHECK(step(&alert, 1, 0, 1000) == ALERT_SEND_FIRING && alert.state == ALERT_FIRING);
	for (int64_t now = 2000; now < QUIET * 3; now += 15000)
		CHECK(step(&alert, 1, 0, now) == ALERT_NO_NOTICE);
	CHECK(step(&alert, 0, 0, QUIET * 3) == ALERT_NO_NOTICE && alert.state == ALERT_FIRING);
	CHECK(step(&alert, 1, 0, QUIET * 3 + 1) == ALERT_NO_NOTICE && alert.good == 0);
	CHECK(step(&alert, 0, 0, QUIET * 3 + 2) == ALERT_NO_NOTICE);
	CHECK(step(&alert, 0, 0, QUIET * 3 + 3) == ALERT_SEND_RESOLVED);
	CHECK(alert.state == ALERT_RESOLVED && alert.since_ms == 1000);
}

TEST(unknown, "what is unknown changes nothing")
{
	struct alert alert = {0};

	CHECK(step(&alert, -1, 0, 1) == ALERT_NO_NOTICE && alert.state == ALERT_INACTIVE);
	step(&alert, 1, 0, 2);
	for (int i = 0; i < 5; i++)
		CHECK(step(&alert, -1, 0, 3 + i) == ALERT_NO_NOTICE && alert.state == ALERT_FIRING);
}

static void end(struct alert *alert, int64_t now, enum alert_notice want)
{
	step(alert, 0, 0, now);
	CHECK(step(alert, 0, 0, now + 1) == want);
}

TEST(quiet,
     "within the quiet hour transitions are recorded, and one notice follows if it fires then")
{
	struct alert alert = {0};

	CHECK(step(&alert, 1, 0, 1000) == ALERT_SEND_FIRING);
	end(&alert, 2000, ALERT_SEND_RESOLVED);
	for (int i = 0; i < 5; i++) {
		CHECK(step(&alert, 1, 0, 10000 + i * 100) == ALERT_NO_NOTICE && alert.held);
		end(&alert, 10050 + i * 100, ALERT_NO_NOTICE);
	}
	CHECK(step(&alert, 1, 0, 50000) == ALERT_NO_NOTICE && alert.state == ALERT_FIRING);
	CHECK(step(&alert, 1, 0, QUIET) == ALERT_NO_NOTICE);
	CHECK(step(&alert, 1, 0, QUIET + 1000) == ALERT_SEND_FIRING && !alert.held);
	CHECK(step(&alert, 1, 0, QUIET + 2000) == ALERT_NO_NOTICE);
	end(&alert, QUIET + 3000, ALERT_SEND_RESOLVED);
}

TEST(silence, "a silenced alert sends nothing, and is sent when the silence ends")
{
	struct alert alert = {.silenced_ms = 5000};

	CHECK(step(&alert, 1, 0, 1000) == ALERT_NO_NOTICE && alert.state == ALERT_FIRING);
	CHECK(step(&alert, 1, 0, 4999) == ALERT_NO_NOTICE);
	CHECK(step(&alert, 1, 0, 5000) == ALERT_SEND_FIRING);
	alert.silenced_ms = 9000;
	end(&alert, 6000, ALERT_NO_NOTICE);
}
