// Replies of a relay: however they are cut they read alike, and a message never leaves its frame.
#include "codec/smtp.h"

#include "fuzz.h"

static void check_body(struct str text)
{
	auto_buf out = BUF_INIT(1 << 22);
	struct str rest;

	smtp_put_body(&out, text);
	if (!buf_ok(&out))
		return;
	rest = buf_view(&out);
	MUST(str_ends(rest, ".\r\n"));
	while (rest.len > 3) { // every line before the last ends with CRLF, and none is a dot alone
		const char *end = memchr(rest.at, '\n', rest.len);

		MUST(end && end > rest.at && end[-1] == '\r');
		MUST(end - rest.at < 1000);
		MUST(!str_is((struct str){rest.at, (size_t)(end - rest.at) + 1}, ".\r\n"));
		rest = str_skip(rest, (size_t)(end - rest.at) + 1);
	}
	MUST(str_is(rest, ".\r\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	struct smtp_reply whole, part;
	enum smtp_verdict verdict = smtp_reply(text, &whole);
	auto_buf header = BUF_INIT(1 << 16);

	if (verdict == SMTP_DONE) {
		MUST(whole.code >= 200 && whole.code <= 599 && whole.size <= len);
		MUST(whole.size <= SMTP_REPLY_MAX && is_within(whole.text, text));
		MUST(smtp_reply((struct str){text.at, whole.size}, &part) == SMTP_DONE);
		MUST(part.code == whole.code && part.size == whole.size);
		MUST(smtp_reply((struct str){text.at, whole.size - 1}, &part) == SMTP_MORE);
	}
	smtp_put_header(&header, "X", text);
	MUST(header.len >= 5 && str_ends(buf_view(&header), "\r\n"));
	MUST(!memchr(header.at, '\n', header.len - 1));
	check_body(text);
	return 0;
}
