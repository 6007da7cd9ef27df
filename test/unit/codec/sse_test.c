#include "codec/sse.h"

#include "tap.h"

// "event|id|data;" of every event, fed `step` bytes at a time.
static void tell(struct str text, size_t step, struct buf *out)
{
	struct sse_reader reader = SSE_READER(1024);
	enum sse_verdict verdict = SSE_MORE;

	buf_clear(out);
	while (text.len && verdict != SSE_TOO_LARGE) {
		struct str in = {text.at, text.len < step ? text.len : step};
		struct sse_event event;

		text = str_skip(text, in.len);
		while ((verdict = sse_read(&reader, &in, &event)) == SSE_EVENT)
			buf_fmt(out, STR_FMT "|" STR_FMT "|" STR_FMT ";", STR_ARG(event.event),
				STR_ARG(event.id), STR_ARG(event.data));
	}
	if (verdict == SSE_TOO_LARGE)
		buf_text(out, "too large");
	buf_text(out, "");
	sse_done(&reader);
}

static bool reads(const char *text, const char *want)
{
	auto_buf out = BUF_INIT(1 << 16);
	bool good = true;

	for (size_t step = 1; step < 20; step += 3) {
		tell(str_of(text), step, &out);
		good &= str_is(buf_view(&out), want);
	}
	return good;
}

TEST(events, "events are read however their bytes are cut")
{
	CHECK(reads("data: {\"a\":1}\n\n", "||{\"a\":1};"));
	CHECK(reads("data:x\r\n\r\ndata: y\r\rdata:  z\n\n", "||x;||y;|| z;"));
	CHECK(reads("event: e\nid: 7\ndata: 1\ndata\ndata: 3\n\ndata: b\n\n", "e|7|1\n\n3;|7|b;"));
	CHECK(reads(":\n\n: comment\ndata: x\nretry: 5\nother: y\n\n", "||x;"));
	CHECK(reads("\xef\xbb\xbf"
		    "data: x\n\n",
		    "||x;"));
	CHECK(reads("event: lost\n\ndata: x\n\n", "||x;"));
	CHECK(reads("data: no end\n", ""));
	CHECK(reads("data: a:b\n\n", "||a:b;"));
	CHECK(reads("", ""));
}

TEST(bounds, "an event past the limit is reported")
{
	char text[3000];

	memset(text, 'x', sizeof(text));
	memcpy(text, "data: ", 6);
	text[sizeof(text) - 1] = 0;
	CHECK(reads(text, "too large"));
}

TEST(writes, "a written event is read back")
{
	auto_buf text = BUF_INIT(1024);

	sse_put(&text, STR("e"), STR("1"), STR("a\nb\r\nc"));
	CHECK(str_is(buf_view(&text), "event: e\nid: 1\ndata: a\ndata: b\ndata: c\n\n"));
	buf_clear(&text);
	sse_put(&text, STR(""), STR("a\nb"), STR(""));
	CHECK(str_is(buf_view(&text), "id: ab\ndata: \n\n"));
}
