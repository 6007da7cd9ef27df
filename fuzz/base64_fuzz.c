// Any text as base64, whole and in pieces: one answer. What the strict decoder takes, this one
// takes with the same bytes; and any bytes, encoded, come back in pieces.
#include "codec/base64.h"

#include "codec/text.h"
#include "fuzz.h"

static bool decode(struct str text, size_t step, struct buf *out)
{
	struct base64 base64 = {0};

	while (text.len > 0) {
		size_t len = text.len < step ? text.len : step;

		if (!base64_feed(&base64, (struct str){text.at, len}, out))
			return false;
		text = str_skip(text, len);
	}
	return base64_end(&base64, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	auto_buf whole = BUF_INIT(1 << 24), pieces = BUF_INIT(1 << 24), strict = BUF_INIT(1 << 24);
	size_t step = len ? bytes[0] % 9 + 1 : 1;
	bool good = decode(text, len ? len : 1, &whole);

	MUST(good == decode(text, step, &pieces));
	if (good)
		MUST(str_eq(buf_view(&whole), buf_view(&pieces)));
	if (text_unbase64(&strict, text))
		MUST(good && str_eq(buf_view(&whole), buf_view(&strict)));
	buf_clear(&strict);
	buf_clear(&pieces);
	text_base64(&strict, bytes, len);
	MUST(decode(buf_view(&strict), step, &pieces));
	MUST(str_eq(text, buf_view(&pieces)));
	return 0;
}
