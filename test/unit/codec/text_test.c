#include "codec/text.h"

#include "tap.h"

static const char *plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
static const char *coded[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};

TEST(base64, "base64 is that of RFC 4648, both ways")
{
	auto_buf out = BUF_INIT(100);

	for (int i = 0; i < 7; i++) {
		buf_clear(&out);
		text_base64(&out, plain[i], strlen(plain[i]));
		CHECK(buf_ok(&out) && str_is(buf_view(&out), coded[i]));
		buf_clear(&out);
		CHECK(text_unbase64(&out, str_of(coded[i])));
		CHECK(str_is(buf_view(&out), plain[i]));
	}
}

TEST(all_bytes, "every byte survives base64")
{
	auto_buf out = BUF_INIT(1000), back = BUF_INIT(1000);
	uint8_t all[256];

	for (int i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	text_base64(&out, all, 256);
	CHECK(text_unbase64(&back, buf_view(&out)));
	CHECK(back.len == 256 && memcmp(back.at, all, 256) == 0);
}

TEST(strict_base64, "base64 that is not exactly one encoding is refused")
{
	static const char *const bad[] = {
		"Z",	"Zg",	 "Zg=",	     "Zg===",		"Zh==", "Zm9=",
		"====", "Zm9v=", "Z==g",     "Zg==Zg==",	"Zm 9", "Zm9v\n",
		"Zm-_", "=",	 "Zm9v====", "\xff\xff\xff\xff"};
	auto_buf out = BUF_INIT(100);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!text_unbase64(&out, str_of(bad[i])));
}

TEST(hex, "hex is lower case, and a full buf takes none of it")
{
	auto_buf out = BUF_INIT(8), small = BUF_INIT(3);

	text_hex(&out, "\x00\xff\x1a", 3);
	CHECK_STR(out.at, "00ff1a");
	text_hex(&small, "ab", 2);
	CHECK(!buf_ok(&small) && small.len == 0);
}

TEST(percent, "percent encoding goes both ways, and NUL or half a triple is refused")
{
	static const char *const bad[] = {"%", "%4", "%4g", "a%", "%00", "x%00y", "%%41"};
	auto_buf out = BUF_INIT(100), back = BUF_INIT(100);

	text_percent(&out, STR("a b/\xc3\xa4~-._%"));
	CHECK_STR(out.at, "a%20b%2F%C3%A4~-._%25");
	CHECK(text_unpercent(&back, buf_view(&out)));
	CHECK_STR(back.at, "a b/\xc3\xa4~-._%");
	buf_clear(&back);
	CHECK(text_unpercent(&back, STR("a+b%2f%2F")));
	CHECK_STR(back.at, "a+b//");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!text_unpercent(&back, str_of(bad[i])));
	CHECK(!text_unpercent(&back, STR("a\0b")));
}

TEST(utf8, "UTF-8 is checked to its last byte")
{
	CHECK(text_is_utf8(STR("")) && text_is_utf8(STR("plain text of more than eight")));
	CHECK(text_is_utf8(STR("12345678\xf0\x9f\x98\x80")));
	CHECK(!text_is_utf8(STR("12345678\xf0\x9f\x98")));
	CHECK(!text_is_utf8(STR("1234567\x80")) && !text_is_utf8(STR("\xed\xa0\x80")));
}

TEST(whole, "the whole prefix ends before a sequence that is cut, and only then")
{
	CHECK(text_utf8_whole(STR("ab")) == 2 && text_utf8_whole(STR("")) == 0);
	CHECK(text_utf8_whole(STR("a\xc3\xa4")) == 3 && text_utf8_whole(STR("a\xc3")) == 1);
	CHECK(text_utf8_whole(STR("a\xf0\x9f\x98")) == 1);
	CHECK(text_utf8_whole(STR("\xf0\x9f")) == 0);
	CHECK(text_utf8_whole(STR("a\x80\x80\x80")) == 4 && text_utf8_whole(STR("\xff")) == 1);
}

TEST(time, "a time is read to the millisecond, with its zone; other texts are refused")
{
	static const char *const bad[] = {"",
					  "2027-01-31",
					  "2027-01-31T08:00:00",
					  "2027-13-01T00:00:00Z",
					  "2027-01-31T08:00:00Zx",
					  "2027-01-31T08:00:00+1",
					  "2027-01-31T08:00:00+15:00",
					  "1960-01-01T00:00:00Z",
					  "2027-01-31T08:00:00.Z0",
					  "tomorrow"};
	int64_t ms = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!text_read_time(str_of(bad[i]), &ms) && ms == 7);
	CHECK(text_read_time(STR("1970-01-01T00:00:01Z"), &ms) && ms == 1000);
	CHECK(text_read_time(STR("2027-01-31T08:00:00.1234567Z"), &ms) && ms == 1801382400123);
	CHECK(text_read_time(STR("2027-01-31T10:30:00+02:30"), &ms) && ms == 1801382400000);
	CHECK(text_read_time(STR("2027-01-31T07:00:00-01:00"), &ms) && ms == 1801382400000);
}
