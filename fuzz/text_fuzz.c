// Encodings: what decodes encodes to the same text; what is encoded decodes to the same bytes.
#include "codec/text.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	auto_buf one = BUF_INIT(1 << 22), two = BUF_INIT(1 << 22);
	size_t whole;

	text_base64(&one, bytes, len);
	MUST(text_unbase64(&two, buf_view(&one)) && str_eq(buf_view(&two), text));
	buf_clear(&one);
	buf_clear(&two);
	if (text_unbase64(&one, text)) {
		text_base64(&two, one.at, one.len);
		MUST(str_eq(buf_view(&two), text));
	}
	buf_clear(&one);
	buf_clear(&two);
	text_percent(&one, text);
	if (text_unpercent(&two, buf_view(&one)))
		MUST(str_eq(buf_view(&two), text));
	else
		MUST(len && memchr(bytes, 0, len));
	buf_clear(&one);
	if (text_unpercent(&one, text))
		MUST(one.len <= len && (!one.at || strlen(one.at) == one.len));
	buf_clear(&one);
	text_hex(&one, bytes, len);
	MUST(one.len == 2 * len);

	whole = text_utf8_whole(text);
	MUST(whole <= len && len - whole <= 3);
	if (text_is_utf8(text))
		MUST(whole == len);
	if (text_is_utf8((struct str){text.at, whole}))
		for (size_t cut = 0; cut < whole && cut < 64; cut++)
			MUST(text_is_utf8((struct str){
				text.at, text_utf8_whole((struct str){text.at, cut})}));
	return 0;
}
