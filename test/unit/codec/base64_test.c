#include "codec/base64.h"

#include "tap.h"

static bool decode(const char *text, size_t step, const char *want)
{
	auto_buf out = BUF_INIT(1024);
	struct base64 base64 = {0};
	struct str left = str_of(text);

	while (left.len > 0) {
		size_t len = left.len < step ? left.len : step;

		if (!base64_feed(&base64, (struct str){left.at, len}, &out))
			return false;
		left = str_skip(left, len);
	}
	return base64_end(&base64, &out) && (!want || str_is(buf_view(&out), want));
}

TEST(pieces, "a text in pieces of any size gives its bytes")
{
	for (size_t step = 1; step < 12; step++) {
		CHECK(decode("aGVsbG8gd29ybGQ=", step, "hello world"));
		CHECK(decode("aGVsbG8gd29ybGQ", step, "hello world"));
		CHECK(decode("aGVsbG8gd29ybA==", step, "hello worl"));
		CHECK(decode("aGVsbG8gd29y", step, "hello wor"));
		CHECK(decode("", step, ""));
	}
}

TEST(refusals, "an invalid character is refused, wherever the pieces end")
{
	static const char *const bad[] = {
		"aGV$",	 "aGVs bG8=", "a",	  "aGVsb",     "a===",	   "=",
		"aGVs=", "aGVsbA=",   "aGVsbA=x", "aGVsbA==a", "aGVsbA==="};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		for (size_t step = 1; step < 9; step++)
			CHECK(!decode(bad[i], step, NULL));
}
