#include "types/budget.h"

#include "tap.h"

static struct budget budget_of(struct budget_limits limits)
{
	struct budget budget;

	budget_init(&budget, &limits, NULL, 0);
	return budget;
}

TEST(nth, "the n-th is allowed and the (n+1)th is not, with its reason")
{
	struct budget_limits limits = BUDGET_UNLIMITED;

	limits.connections = 3;
	limits.requests = 2;
	struct budget budget = budget_of(limits);

	CHECK(budget_request(&budget) == BUDGET_OK && budget_request(&budget) == BUDGET_OK);
	CHECK(budget_request(&budget) == BUDGET_REQUESTS && budget.used.requests == 2);
	CHECK(budget_open(&budget, true, 0) == BUDGET_REQUESTS);
	CHECK_STR(budget_reason(BUDGET_REQUESTS), "budget_requests");
	budget_unrequest(&budget);
	for (int i = 0; i < 3; i++)
		CHECK(budget_open(&budget, false, 0) == BUDGET_OK);
	CHECK(budget_open(&budget, false, 0) == BUDGET_CONNECTIONS);
	budget_close(&budget);
	CHECK(budget_open(&budget, false, 0) == BUDGET_CONNECTIONS); // closing gives none back
	budget_unopen(&budget, false);
	CHECK(budget_open(&budget, true, 0) == BUDGET_OK);
	CHECK(budget.used.requests == 2 && budget.used.connections == 3 && budget.open == 2);
	for (int i = 0; i < BUDGET_VERDICTS; i++)
		CHECK(budget_reason((enum budget_verdict)i) &&
		      budget_words((enum budget_verdict)i));
}

TEST(bytes, "bytes are granted to the last one, and what was not moved comes back")
{
	struct budget_limits limits = BUDGET_UNLIMITED;

	limits.bytes_out = 100;
	struct budget budget = budget_of(limits);

	CHECK(budget_take(&budget, BUDGET_OUT, 64) == 64);
	CHECK(budget_take(&budget, BUDGET_OUT, 64) == 36);
	CHECK(budget_take(&budget, BUDGET_OUT, 64) == 0);
	CHECK(budget_take(&budget, BUDGET_IN, UINT64_MAX - 1) == UINT64_MAX - 1);
	CHECK(budget_open(&budget, false, 0) == BUDGET_BYTES_OUT);
	budget_give_back(&budget, BUDGET_OUT, 36);
	CHECK(budget_spent(&budget) == BUDGET_OK);
	CHECK(budget_take(&budget, BUDGET_OUT, 64) == 36);
	CHECK(budget.used.bytes_out == 100);
	CHECK(budget_spent(&budget) == BUDGET_BYTES_OUT);
}

TEST(open_now, "1,024 are open at once, whatever the budgets")
{
	struct budget_limits limits = BUDGET_UNLIMITED;

	limits.per_second = 10000;
	struct budget budget = budget_of(limits);

	for (int i = 0; i < BUDGET_OPEN_DEFAULT; i++)
		CHECK(budget_open(&budget, false, 0) == BUDGET_OK);
	CHECK(budget_open(&budget, false, 0) == BUDGET_OPEN);
	budget_close(&budget);
	CHECK(budget_open(&budget, false, 0) == BUDGET_OK);
	CHECK(budget.used.connections == BUDGET_OPEN_DEFAULT + 1);
}

static int opened(struct budget *budget, int64_t now_ms)
{
	int count = 0;

	while (budget_open(budget, false, now_ms) == BUDGET_OK) {
		budget_close(budget);
		count++;
	}
	return count;
}

TEST(rate, "a burst of 1,000, then 200 a second, to the millisecond")
{
	struct budget budget = budget_of(BUDGET_UNLIMITED);

	CHECK(opened(&budget, 0) == 1000);
	CHECK(budget_open(&budget, false, 4) == BUDGET_RATE);
	CHECK(budget_rate_ms(&budget, 4) == 1);
	CHECK(opened(&budget, 5) == 1);
	CHECK(budget_rate_ms(&budget, 5) == 5);
	CHECK(opened(&budget, 1005) == 200);
	CHECK(opened(&budget, 1000) == 0); // a clock that goes back gives nothing
	for (int64_t now = 1006; now <= 2005; now++)
		budget.used.requests += (uint64_t)opened(&budget, now);
	CHECK(budget.used.requests == 200);
	CHECK(opened(&budget, 1000000000) == 1000);
	CHECK(opened(&budget, INT64_MAX) == 1000);
}

TEST(own_rate, "a rate of one's own has one second's worth, and changing it fills nothing")
{
	struct budget_limits limits = BUDGET_UNLIMITED, wide = BUDGET_UNLIMITED;

	limits.per_second = 3;
	wide.per_second = UINT64_MAX - 1;
	struct budget budget = budget_of(limits);

	CHECK(opened(&budget, 0) == 3 && opened(&budget, 333) == 0 && opened(&budget, 334) == 1);
	for (int i = 0; i < 10; i++) {
		budget_change(&budget, &(struct budget_limits){1, 1, 1, 1, 5, 0}, 334);
		budget_change(&budget, &limits, 334);
	}
	CHECK(opened(&budget, 334) == 0);
	budget_change(&budget, &wide, 334);
	CHECK(budget_open(&budget, false, 335) == BUDGET_OK);
}

TEST(within, "N-10 a policy lowers the rate, and raises it as far as the operator has")
{
	struct budget_limits limits = BUDGET_UNLIMITED;

	limits.per_second = 100000;
	struct budget budget = budget_of(budget_within(&limits, BUDGET_RATE_DEFAULT));

	CHECK(opened(&budget, 0) == 1000 && opened(&budget, 1000) == 200);
	budget = budget_of(budget_within(&limits, 5000));
	CHECK(opened(&budget, 0) == 5000 && opened(&budget, 1000) == 5000);
	limits.per_second = 3;
	CHECK(budget_within(&limits, BUDGET_RATE_DEFAULT).per_second == 3);
	limits.per_second = BUDGET_NONE;
	budget = budget_of(budget_within(&limits, 5000)); // who asks for nothing has the default
	CHECK(opened(&budget, 0) == 1000 && opened(&budget, 1000) == 200);
	budget = budget_of(budget_within(&limits, 5));
	CHECK(opened(&budget, 0) == 5 && opened(&budget, 1000) == 5);
}

TEST(spared, "N-10 what does not count in all is open until it is closed")
{
	struct budget_limits limits = BUDGET_UNLIMITED;

	limits.per_second = 10000;
	limits.connections = 1;
	struct budget budget = budget_of(limits);

	for (int i = 0; i < BUDGET_OPEN_DEFAULT; i++) {
		CHECK(budget_open(&budget, false, 0) == BUDGET_OK);
		budget_spare(&budget);
	}
	CHECK(budget_open(&budget, false, 0) == BUDGET_OPEN && !budget.used.connections);
	budget_close(&budget);
	CHECK(budget_open(&budget, false, 0) == BUDGET_OK);
}

TEST(kept, "what was used before a restart stays used")
{
	struct budget_limits limits = BUDGET_UNLIMITED;
	struct budget_used used = {.connections = 4, .requests = 9, .bytes_out = 7, .bytes_in = 8};
	struct budget budget;

	limits.requests = 10;
	budget_init(&budget, &limits, &used, 5);
	CHECK(budget_request(&budget) == BUDGET_OK);
	CHECK(budget_request(&budget) == BUDGET_REQUESTS);
	limits.requests = 5; // less than was used already
	budget_change(&budget, &limits, 5);
	CHECK(budget_request(&budget) == BUDGET_REQUESTS && budget.used.requests == 10);
	limits.bytes_out = 3;
	budget_change(&budget, &limits, 5);
	CHECK(budget_take(&budget, BUDGET_OUT, 1) == 0);
}
