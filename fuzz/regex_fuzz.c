// Regular expressions: any expression, any text. What matches without an anchor matches with more
// text around it, too.
#include "codec/regex.h"

#include "base/buf.h"
#include "codec/text.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str pattern, text;
	auto_regex regex = NULL;
	auto_err err = OK;

	if (len < 2 || len > 600)
		return 0;
	pattern = (struct str){(const char *)bytes + 2, bytes[0] < len - 2 ? bytes[0] : len - 2};
	text = (struct str){pattern.at + pattern.len, len - 2 - pattern.len};
	err = regex_compile(pattern, bytes[1] & 1, &regex);
	if (err) {
		MUST(err_kind(err) == ERR_INVALID);
		return 0;
	}
	if (regex_test(regex, text) && pattern.len && !memchr(pattern.at, '^', pattern.len) &&
	    !memchr(pattern.at, '$', pattern.len) && !memchr(pattern.at, '\\', pattern.len) &&
	    text_is_utf8(text)) {
		auto_buf more = BUF_INIT(4096);

		buf_text(&more, "x ");
		buf_str(&more, text);
		buf_text(&more, " y");
		MUST(regex_test(regex, buf_view(&more)));
	}
	return 0;
}
