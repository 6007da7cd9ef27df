#include "codec/json_flow.h"

#include "codec/json.h"
#include "tap.h"

static struct buf content, rest;
static const char *fault;

// Reads the text in steps, with room for `room` bytes of content at a time; false: refused.
static bool read_text(const char *text, size_t step, size_t room)
{
	struct str left = str_of(text);
	auto_buf piece = BUF_INIT(room);
	struct json_flow flow;

	buf_done(&content);
	buf_done(&rest);
	content = BUF_INIT(1 << 20);
	rest = BUF_INIT(256);
	json_flow_init(&flow, "content", &rest);
	while (left.len > 0) {
		struct str part = {left.at, left.len < step ? left.len : step};
		enum json_flow_verdict verdict;

		left = str_skip(left, part.len);
		do {
			verdict = json_flow(&flow, &part, &piece);
			buf_str(&content, buf_view(&piece));
			buf_clear(&piece);
		} while (verdict == JSON_FLOW_FULL);
		fault = flow.fault;
		if (verdict == JSON_FLOW_BAD)
			return false;
	}
	return true;
}

TEST(any_order, "the long member may stand anywhere, and everything else is kept")
{
	static const char *const texts[] = {
		"{\"path\":\"/a\",\"content\":\"abc\\n\\\"\",\"encoding\":\"utf-8\"}",
		"{\"path\":\"/a\",\"encoding\":\"utf-8\",\"content\":\"abc\\n\\\"\"}",
		"{\"content\":\"abc\\n\\\"\",\"path\":\"/a\",\"encoding\":\"utf-8\"}",
	};

	for (size_t i = 0; i < 3; i++)
		for (size_t step = 1; step < 9; step++) {
			auto_json json = NULL;
			struct str path = {0};

			CHECK(read_text(texts[i], step, 8));
			CHECK(str_is(buf_view(&content), "abc\n\""));
			CHECK_OK(json_read(buf_view(&rest), &json));
			CHECK_OK(json_str(json_get(json, "path"), "path", &path));
			CHECK(str_is(path, "/a"));
		}
}

TEST(escapes, "escapes, pairs of surrogates and cut sequences come out as UTF-8")
{
	CHECK(read_text("{\"content\":\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\/\\t\xc3\xa9\"}", 1,
			8));
	CHECK(str_is(buf_view(&content), "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/\t\xc3\xa9"));
	CHECK(read_text("{\"content\":\"a\\u0000b\"}", 3, 8));
	CHECK(content.len == 3 && memcmp(content.at, "a\0b", 3) == 0);
}

TEST(halves, "half of a surrogate pair is U+FFFD, wherever the pieces end")
{
	for (size_t step = 1; step < 8; step++) {
		CHECK(read_text("{\"content\":\"\\ud800\"}", step, 8));
		CHECK(str_is(buf_view(&content), "\xef\xbf\xbd"));
		CHECK(read_text("{\"content\":\"\\ud800\\n\\udc00x\\ud800\\ud83d\\ude00\"}", step,
				8));
		CHECK(str_is(buf_view(&content), "\xef\xbf\xbd\n\xef\xbf\xbdx\xef\xbf\xbd"
						 "\xf0\x9f\x98\x80"));
		CHECK(read_text("{\"content\":\"\\ud800\xc3\xa9\\ud800\\u0041\"}", step, 8));
		CHECK(str_is(buf_view(&content), "\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd"
						 "A"));
	}
}

TEST(only_the_top, "only a member of the outermost object is long, and only a string")
{
	const char *text = "{\"a\":{\"content\":\"x\"},\"b\":[\"content\"],\"c\":\"content\"}";

	CHECK(read_text(text, 2, 8));
	CHECK(content.len == 0);
	CHECK(str_is(buf_view(&rest), text));
	CHECK(read_text("{\"content\":12}", 2, 8));
	CHECK(str_is(buf_view(&rest), "{\"content\":12}"));
}

TEST(refusals, "invalid strings are refused, and so are too large other members")
{
	CHECK(!read_text("{\"content\":\"\\x\"}", 1, 8));
	CHECK(!read_text("{\"content\":\"\\u12g4\"}", 1, 8));
	CHECK(!read_text("{\"content\":\"\xff\"}", 1, 8));
	CHECK(!read_text("{\"content\":\"a\nb\"}", 1, 8));
	CHECK(!read_text("}", 1, 8));
	{
		char text[400] = "{\"path\":\"";

		memset(text + 9, 'x', 380);
		CHECK(!read_text(text, 100, 8));
		CHECK(strstr(fault, "too large"));
	}
}

TEST(twice, "a second one is not long, and the strict reader refuses the double")
{
	auto_json json = NULL;

	CHECK(read_text("{\"content\":\"a\",\"content\":\"b\"}", 1, 8));
	CHECK(str_is(buf_view(&content), "a"));
	CHECK_ERR(json_read(buf_view(&rest), &json), INVALID);
}
