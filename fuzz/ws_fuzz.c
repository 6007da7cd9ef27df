// Frames in pieces of different sizes mean the same; the first byte chooses the side that reads.
#include "codec/ws.h"

#include "codec/text.h"
#include "fuzz.h"

#define MAX 2000

static void tell(struct str text, size_t step, bool is_server, struct buf *out)
{
	struct ws_reader *reader = ws_reader_new(is_server, MAX);
	bool over = false;

	while (text.len && !over) {
		struct str in = {text.at, text.len < step ? text.len : step};
		struct ws_item item = {0};
		enum ws_event event;

		text = str_skip(text, in.len);
		while (!over && (event = ws_read(reader, &in, &item)) != WS_MORE) {
			over = event == WS_FAULT || event == WS_GOT_CLOSE;
			MUST(item.body.len <= (event == WS_MESSAGE ? MAX : WS_CONTROL_MAX));
			MUST(event != WS_FAULT || (item.fault && item.code >= 1002));
			MUST(!(event == WS_MESSAGE && item.is_text) || text_is_utf8(item.body));
			buf_fmt(out, "%d %d %d %zu:", (int)event, item.is_text, item.code,
				item.body.len);
			buf_str(out, item.body);
		}
		MUST(over || in.len == 0);
	}
	ws_reader_free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	auto_buf whole = BUF_INIT(1 << 24), single = BUF_INIT(1 << 24);

	if (len == 0)
		return 0;
	text = str_skip(text, 1);
	tell(text, SIZE_MAX, bytes[0] & 1, &whole);
	tell(text, 1 + bytes[0] / 2 % 7, bytes[0] & 1, &single);
	MUST(str_eq(buf_view(&whole), buf_view(&single)));
	return 0;
}
