#include "types/usage.h"

#include "tap.h"

static uint64_t price(const char *text)
{
	uint64_t value = 0;

	return price_read(str_of(text), &value) ? value : UINT64_MAX;
}

TEST(prices, "a price is a decimal number of twelve digits at most")
{
	char text[PRICE_ROOM];

	CHECK(price("1") == 1000000000000 && price("0.000014") == 14000000);
	CHECK(price("0.000000000001") == 1 && price("0") == 0);
	CHECK(price("") == UINT64_MAX && price("1.") == UINT64_MAX && price(".5") == UINT64_MAX);
	CHECK(price("-1") == UINT64_MAX && price("1e3") == UINT64_MAX);
	CHECK(price("0.0000000000001") == UINT64_MAX && price("1000001") == UINT64_MAX);
	price_text(price("0.000014"), text);
	CHECK_STR(text, "0.000014");
	price_text(price("12"), text);
	CHECK_STR(text, "12");
	price_text(price("1.50"), text);
	CHECK_STR(text, "1.5");
}

TEST(cost, "G-5 the cost is price times amount, in millionths, rounded once")
{
	struct prices prices = {.cpu_second = price("0.5"),
				.gib_second = price("0.000001"),
				.gib_hour = price("0.001"),
				.request = price("0.000002")};
	struct usage used = {.cpu_us = 3000000,
			     .memory_kib_s = 1048576ull * 10,
			     .disk_kib_s = 1048576ull * 7200,
			     .requests = 5};
	char text[USAGE_COST_ROOM];

	CHECK(usage_cost(&used, &prices) == 1500000 + 10 + 2000 + 10);
	usage_cost_text(usage_cost(&used, &prices), text);
	CHECK_STR(text, "1.502020");
	used = (struct usage){.cpu_us = UINT64_MAX, .memory_kib_s = UINT64_MAX};
	CHECK(usage_cost(&used, &prices) > 0); // a sum of a whole host does not overflow
	used = (struct usage){0};
	CHECK(usage_is_none(&used) && usage_cost(&used, &prices) == 0);
	usage_add(&used, &(struct usage){.requests = 2, .bytes_in = 3});
	usage_add(&used, &(struct usage){.requests = 1});
	CHECK(used.requests == 3 && used.bytes_in == 3 && !usage_is_none(&used));
}

TEST(periods, "a period is a day or a month of the calendar")
{
	const int64_t day = 24ll * USAGE_HOUR_MS;
	int64_t begin, end;

	period_of(PERIOD_DAY, 1709210096789, &begin, &end); // 2024-02-29T12:34:56
	CHECK(begin == 1709164800000 && end == begin + day);
	period_of(PERIOD_MONTH, 1709210096789, &begin, &end);
	CHECK(begin == 1706745600000 && end == begin + 29 * day);
	period_of(PERIOD_MONTH, 1703980800000, &begin, &end); // 2023-12-31
	CHECK(begin == 1701388800000 && end == 1704067200000);
}
