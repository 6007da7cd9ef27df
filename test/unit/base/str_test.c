#include "base/str.h"

#include "tap.h"

TEST(compares, "slices compare by bytes, or without ASCII case, and never run over their end")
{
	struct str abc = {"abcdef", 3};

	CHECK(str_is(abc, "abc"));
	CHECK(!str_is(abc, "abcd") && !str_is(abc, "ab"));
	CHECK(str_eq((struct str){NULL, 0}, STR("")));
	CHECK(str_eq_nocase(STR("Content-LENGTH"), STR("content-length")));
	CHECK(!str_eq_nocase(STR("a"), STR("\xe1")) && !str_eq_nocase(STR("@"), STR("`")));
	CHECK(str_starts(abc, "ab") && str_starts(abc, "") && !str_starts(abc, "abcd"));
	CHECK(str_ends(abc, "bc") && str_ends(abc, "") && !str_ends(abc, "xabc"));
	CHECK(str_starts((struct str){NULL, 0}, ""));
}

TEST(trims, "trimming takes blanks and tabs from both ends and nothing else")
{
	CHECK(str_is(str_trim(STR(" \t a b\t ")), "a b"));
	CHECK(str_is(str_trim(STR(" \t ")), ""));
	CHECK(str_is(str_trim(STR("\na")), "\na"));
	CHECK(str_is(str_skip(STR("abc"), 2), "c") && str_is(str_skip(STR("abc"), 9), ""));
}

TEST(cuts, "cutting gives every part once, the empty ones too")
{
	static const char *const want[] = {"a", "", "b", ""};
	struct str rest = STR("a,,b,"), part;
	size_t n = 0;

	for (; str_cut(&rest, ',', &part); n++)
		CHECK(n < 4 && str_is(part, want[n]));
	CHECK(n == 4);
	rest = STR("");
	CHECK(str_cut(&rest, ',', &part) && part.len == 0);
	part = STR("kept");
	CHECK(!str_cut(&rest, ',', &part) && !part.at && !part.len);
}

TEST(modes, "a mode is up to five octal digits, at most 07777")
{
	static const char *const bad[] = {"", "8", "10000", "000644", "-1", "0x1", "64 "};
	uint32_t mode = 1;

	CHECK(str_to_mode(STR("0644"), &mode) && mode == 0644);
	CHECK(str_to_mode(STR("07777"), &mode) && mode == 07777);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!str_to_mode(str_of(bad[i]), &mode) && mode == 07777);
}

TEST(numbers, "a number is digits only, within its range, and nothing is written otherwise")
{
	static const char *const bad[] = {"",	 "+5", "-1",  " 5",   "5 ",
					  "0x5", "5.", "1e3", "\xb2", "18446744073709551616"};
	uint64_t out = 77;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!str_to_u64(str_of(bad[i]), 0, UINT64_MAX, &out) && out == 77);
	CHECK(str_to_u64(STR("18446744073709551615"), 0, UINT64_MAX, &out) && out == UINT64_MAX);
	CHECK(str_to_u64(STR("007"), 7, 7, &out) && out == 7);
	CHECK(!str_to_u64(STR("6"), 7, 9, &out) && !str_to_u64(STR("10"), 7, 9, &out));
}

TEST(sizes, "sizes have powers of 1024, and overflow is refused")
{
	uint64_t out = 77;

	CHECK(str_to_bytes(STR("512"), &out) && out == 512);
	CHECK(str_to_bytes(STR("64k"), &out) && out == 65536);
	CHECK(str_to_bytes(STR("512M"), &out) && out == 512ull << 20);
	CHECK(str_to_bytes(STR("2G"), &out) && out == 2ull << 30);
	CHECK(!str_to_bytes(STR("M"), &out) && !str_to_bytes(STR(""), &out));
	CHECK(!str_to_bytes(STR("1.5G"), &out) && !str_to_bytes(STR("-1G"), &out));
	CHECK(!str_to_bytes(STR("5MB"), &out) && !str_to_bytes(STR("5 M"), &out));
	CHECK(!str_to_bytes(STR("99999999999999G"), &out) && out == 2ull << 30);
}

TEST(durations, "durations need a unit")
{
	uint64_t out = 77;

	CHECK(str_to_ms(STR("90s"), &out) && out == 90000);
	CHECK(str_to_ms(STR("10m"), &out) && out == 600000);
	CHECK(str_to_ms(STR("1h"), &out) && out == 3600000);
	CHECK(str_to_ms(STR("250ms"), &out) && out == 250);
	CHECK(!str_to_ms(STR("90"), &out) && !str_to_ms(STR("s"), &out));
	CHECK(!str_to_ms(STR("ms"), &out) && !str_to_ms(STR("1d"), &out));
	CHECK(!str_to_ms(STR("18446744073709551615h"), &out) && out == 250);
}

TEST(utf8, "a sequence is good, bad or cut off, as table 3-7 of Unicode says")
{
	static const struct {
		const char *bytes;
		enum str_utf8 verdict;
		size_t len;
	} rows[] = {
		{"a", STR_UTF8_GOOD, 1},
		{"\xc3\xa4", STR_UTF8_GOOD, 2},
		{"\xe2\x82\xac", STR_UTF8_GOOD, 3},
		{"\xf0\x9f\x98\x80", STR_UTF8_GOOD, 4},
		{"\xf4\x8f\xbf\xbf", STR_UTF8_GOOD, 4},
		{"\xc3", STR_UTF8_CUT, 1},
		{"\xf0\x9f\x98", STR_UTF8_CUT, 3},
		{"\x80", STR_UTF8_BAD, 1},
		{"\xc0\x80", STR_UTF8_BAD, 1},
		{"\xc1\xbf", STR_UTF8_BAD, 1},
		{"\xe0\x9f\xbf", STR_UTF8_BAD, 1},
		{"\xed\xa0\x80", STR_UTF8_BAD, 1},
		{"\xf0\x8f\xbf\xbf", STR_UTF8_BAD, 1},
		{"\xf4\x90\x80\x80", STR_UTF8_BAD, 1},
		{"\xf5", STR_UTF8_BAD, 1},
		{"\xff", STR_UTF8_BAD, 1},
		{"\xe2\x82z", STR_UTF8_BAD, 2},
	};
	size_t len;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK(str_utf8(str_of(rows[i].bytes), &len) == rows[i].verdict);
		CHECK(len == rows[i].len);
	}
}
