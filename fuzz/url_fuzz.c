// Targets, absolute URLs and queries.
#include "codec/url.h"

#include "codec/text.h"
#include "fuzz.h"

static void try_query(struct str query)
{
	auto_buf key = BUF_INIT(1 << 20), value = BUF_INIT(1 << 20);
	struct str rest = query, coded, raw;

	while (url_pair(&rest, &coded, &raw)) {
		MUST(is_within(coded, query) && is_within(raw, query));
		MUST(!memchr(coded.at, '=', coded.len));
		// A key that decodes is found again under its decoded name.
		buf_clear(&key);
		if (memchr(coded.at, '+', coded.len) || !text_unpercent(&key, coded) || !key.at)
			continue;
		buf_clear(&value);
		if (url_query(query, key.at, &value))
			MUST(!value.at || strlen(value.at) == value.len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	auto_buf out = BUF_INIT(1 << 20);
	struct url url;

	if (url_target(text, &url)) {
		MUST(is_within(url.path, text) && is_within(url.query, text));
		MUST(url.path.len > 0 && url.path.at[0] == '/');
		MUST(!memchr(url.path.at, '?', url.path.len));
	}
	if (url_absolute(text, &url)) {
		MUST(is_within(url.host, text) && url.host.len > 0 && url.path.at[0] == '/');
		buf_fmt(&out, "%.*s://[%.*s]", STR_ARG(url.scheme), STR_ARG(url.host));
		MUST(!strpbrk(out.at, "@ \r\n#?"));
	}
	try_query(text);
	return 0;
}
