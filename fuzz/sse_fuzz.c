// A stream of events in pieces of different sizes tells the same, and what it tells can be written.
#include "codec/sse.h"

#include "fuzz.h"

#define MAX 4096

static bool tell(struct str text, size_t step, struct buf *out)
{
	struct sse_reader reader = SSE_READER(MAX);
	enum sse_verdict verdict = SSE_MORE;

	while (text.len && verdict != SSE_TOO_LARGE) {
		struct str in = {text.at, text.len < step ? text.len : step};
		struct sse_event event;

		text = str_skip(text, in.len);
		while ((verdict = sse_read(&reader, &in, &event)) == SSE_EVENT) {
			MUST(event.data.len <= MAX && event.event.len <= MAX);
			MUST(!event.data.len || !memchr(event.data.at, '\r', event.data.len));
			sse_put(out, event.event, STR(""), event.data); // ids stay
		}
		MUST(verdict == SSE_TOO_LARGE || in.len == 0);
	}
	sse_done(&reader);
	return verdict != SSE_TOO_LARGE;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	auto_buf whole = BUF_INIT(1 << 24), single = BUF_INIT(1 << 24), again = BUF_INIT(1 << 24);
	bool good = tell(text, SIZE_MAX, &whole);

	MUST(tell(text, 1, &single) == good);
	if (!good)
		return 0;
	MUST(str_eq(buf_view(&whole), buf_view(&single)));
	if (buf_ok(&whole) && tell(buf_view(&whole), 7, &again))
		MUST(str_eq(buf_view(&whole), buf_view(&again)));
	return 0;
}
