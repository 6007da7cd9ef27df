#include "types/counters.h"

#include "tap.h"

TEST(numbers, "a counter is the number behind its label, on a whole line")
{
	struct str stat = STR("cache 5\ntotal_inactive_file 4096\ninactive_file 7\nx\n");
	uint64_t value = 9;

	CHECK(counters_number(stat, "inactive_file", &value) && value == 7);
	CHECK(counters_number(stat, "total_inactive_file", &value) && value == 4096);
	CHECK(!counters_number(stat, "inactive", &value) && value == 4096);
	CHECK(!counters_number(stat, "x", &value));
	CHECK(counters_number(STR("123\n"), NULL, &value) && value == 123);
	CHECK(!counters_number(STR("123"), NULL, &value)); // cut by the reader's room
	CHECK(!counters_number(STR("max\n"), NULL, &value));
	CHECK(!counters_number(STR("-1\n"), NULL, &value));
	CHECK(!counters_number(STR("18446744073709551615\n"), NULL, &value));
	CHECK(!counters_number(STR(""), NULL, &value));
}

TEST(io, "bytes of all disks add up")
{
	uint64_t in = 1, out = 1;

	counters_io(STR("8:0 rbytes=10 wbytes=20 rios=3\n8:16 rbytes=1 wbytes=2\n9:0 rbytes=99"),
		    &in, &out);
	CHECK(in == 11 && out == 22);
	counters_io(STR(""), &in, &out);
	CHECK(in == 0 && out == 0);
}

TEST(working, "the working set is what is charged less inactive pages of files")
{
	CHECK(counters_working(100, 30) == 70);
	CHECK(counters_working(30, 100) == 0);
	CHECK(counters_working(100, COUNTER_UNKNOWN) == 100);
	CHECK(counters_working(COUNTER_UNKNOWN, 5) == COUNTER_UNKNOWN);
}
