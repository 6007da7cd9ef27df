#include "base/buf.h"

#include "tap.h"

TEST(grows, "a buf grows as it is fed, and a NUL stands behind its bytes")
{
	auto_buf buf = BUF_INIT(100000);

	for (int i = 0; i < 5000; i++) {
		buf_fmt(&buf, "%d,", i);
		CHECK(buf.at[buf.len] == 0);
	}
	buf_str(&buf, STR("end"));
	buf_char(&buf, '.');
	CHECK(buf_ok(&buf) && buf.len == 10 * 2 + 90 * 3 + 900 * 4 + 4000 * 5 + 4);
	CHECK(str_ends(buf_view(&buf), "4999,end."));
}

TEST(ceiling, "what does not fit is not added at all, nor is anything after it")
{
	auto_buf buf = BUF_INIT(8);

	buf_text(&buf, "12345678");
	CHECK(buf_ok(&buf) && buf.len == 8);
	buf_char(&buf, '9');
	CHECK(!buf_ok(&buf));
	buf_clear(&buf);
	CHECK(buf_ok(&buf) && buf.len == 0 && buf.at[0] == 0);
	buf_text(&buf, "1234567");
	buf_fmt(&buf, "%s", "890");
	CHECK(!buf_ok(&buf));
	buf_add(&buf, "", 0);
	buf_char(&buf, 'x');
	CHECK_STR(buf.at, "1234567");
	CHECK(buf.len == 7 && buf_space(&buf, 0) == NULL);
}

TEST(no_wrap, "a length near the end of all numbers fails and does not wrap")
{
	auto_buf buf = BUF_INIT(SIZE_MAX);

	buf_text(&buf, "abc");
	CHECK(buf_space(&buf, SIZE_MAX - 1) == NULL && !buf_ok(&buf));
	buf_clear(&buf);
	CHECK(buf_space(&buf, SIZE_MAX) == NULL && !buf_ok(&buf));
}

TEST(in_place, "space may be written in place, and the front dropped")
{
	auto_buf buf = BUF_INIT(64);
	char *at = buf_space(&buf, 10);

	memcpy(at, "abcdef", 6);
	buf_grew(&buf, 6);
	buf_drop_front(&buf, 2);
	CHECK_STR(buf.at, "cdef");
	buf_drop_front(&buf, 4);
	CHECK_STR(buf.at, "");
}

TEST(taken, "taken text is the caller's, an empty one too, and the buf can be used again")
{
	struct buf buf = BUF_INIT(64);
	auto_free char *empty = buf_take(&buf);
	auto_free char *text = NULL;

	CHECK_STR(empty, "");
	buf_text(&buf, "words");
	text = buf_take(&buf);
	CHECK_STR(text, "words");
	CHECK(buf.at == NULL && buf.len == 0);
	buf_done(&buf);
}

TEST(fits_exactly, "a format that fits exactly is not cut")
{
	auto_buf buf = BUF_INIT(64);

	buf_fmt(&buf, "%064d", 7);
	CHECK(buf_ok(&buf) && buf.len == 64 && buf.at[63] == '7');
	buf_fmt(&buf, "%s", "");
	CHECK(buf_ok(&buf) && buf.len == 64);
}
