#include "types/history_row.h"

#include "tap.h"

TEST(rows, "a row is read as it was written")
{
	struct history_point points[HISTORY_POINTS] = {0}, again[HISTORY_POINTS];
	auto_buf out = BUF_INIT(1 << 16);

	points[3].covered = 3000;
	points[3].value[HISTORY_CPU] = 300000000;
	points[3].max[HISTORY_CPU] = 10000000;
	points[4].covered = 1;
	points[4].value[HISTORY_MEMORY] = UINT64_MAX;
	history_row_write(points, &out);
	CHECK(history_row_read(buf_view(&out), again) && out.len < 50);
	for (int i = 0; i < HISTORY_POINTS; i++)
		CHECK(again[i].covered == points[i].covered &&
		      !memcmp(again[i].value, points[i].value, sizeof(points[i].value)) &&
		      !memcmp(again[i].max, points[i].max, sizeof(points[i].max)));
	for (size_t len = 0; len < out.len; len++)
		CHECK(!history_row_read((struct str){out.at, len}, again));
}

TEST(sums, "two parts of a point are one: counters add up, gauges are weighed")
{
	struct history_point a = {.covered = 100}, b = {.covered = 300};

	a.value[HISTORY_CPU] = 5;
	b.value[HISTORY_CPU] = 7;
	a.value[HISTORY_MEMORY] = 1000;
	b.value[HISTORY_MEMORY] = 2000;
	b.max[HISTORY_MEMORY] = 2500;
	history_point_add(&a, &b);
	CHECK(a.covered == 400 && a.value[HISTORY_CPU] == 12 && a.value[HISTORY_MEMORY] == 1750);
	CHECK(a.max[HISTORY_MEMORY] == 2500);
}
