#include "codec/range.h"

#include "tap.h"

static uint64_t first, len, total;

TEST(parts, "a range is cut to what is there")
{
	CHECK(range_read(STR("bytes=0-99"), 200, &first, &len) == RANGE_PART);
	CHECK(first == 0 && len == 100);
	CHECK(range_read(STR("bytes=100-"), 200, &first, &len) == RANGE_PART);
	CHECK(first == 100 && len == 100);
	CHECK(range_read(STR("bytes=-5"), 200, &first, &len) == RANGE_PART);
	CHECK(first == 195 && len == 5);
	CHECK(range_read(STR("bytes=-500"), 200, &first, &len) == RANGE_PART);
	CHECK(first == 0 && len == 200);
	CHECK(range_read(STR("bytes=199-999999999999"), 200, &first, &len) == RANGE_PART);
	CHECK(first == 199 && len == 1);
}

TEST(outside, "a range that begins behind the end is outside")
{
	CHECK(range_read(STR("bytes=200-"), 200, &first, &len) == RANGE_OUTSIDE);
	CHECK(range_read(STR("bytes=0-0"), 0, &first, &len) == RANGE_OUTSIDE);
	CHECK(range_read(STR("bytes=-0"), 200, &first, &len) == RANGE_OUTSIDE);
	CHECK(range_read(STR("bytes=-1"), 0, &first, &len) == RANGE_OUTSIDE);
}

TEST(ignored, "a malformed range, another unit, or several ranges are ignored")
{
	static const char *const odd[] = {"",
					  "bytes=",
					  "bytes=-",
					  "bytes=a-b",
					  "bytes=5-4",
					  "bytes=0-1,3-",
					  "lines=0-1",
					  "bytes 0-1",
					  "bytes=1",
					  "bytes=0--1",
					  "bytes=18446744073709551616-"};

	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
		CHECK(range_read(str_of(odd[i]), 200, &first, &len) == RANGE_WHOLE);
	CHECK(range_read((struct str){0}, 200, &first, &len) == RANGE_WHOLE);
}

TEST(content, "a part of an upload names its place, its length and the whole")
{
	CHECK(range_content(STR("bytes 0-99/200"), &first, &len, &total));
	CHECK(first == 0 && len == 100 && total == 200);
	CHECK(range_content(STR("bytes */200"), &first, &len, &total));
	CHECK(first == 200 && len == 0 && total == 200);
	CHECK(!range_content(STR("bytes 0-200/200"), &first, &len, &total));
	CHECK(!range_content(STR("bytes 0-99/*"), &first, &len, &total));
	CHECK(!range_content(STR("bytes 5-4/200"), &first, &len, &total));
	CHECK(!range_content(STR("bytes"), &first, &len, &total));
	CHECK(!range_content(STR("bytes /"), &first, &len, &total));
	CHECK(!range_content((struct str){0}, &first, &len, &total));
}
