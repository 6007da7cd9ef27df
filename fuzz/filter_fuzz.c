// Filters of users: a filter and a row of JSON, parted by a NUL. A term and its opposite never hold
// together, and an empty filter always holds.
#include "codec/filter.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len}, filter;
	auto_buf term = BUF_INIT(FILTER_MAX * 2);
	auto_json row = NULL;
	auto_err err = NULL;

	if (!len || !str_cut(&text, 0, &filter))
		return 0;
	err = json_read(text, &row);
	if (err)
		return 0;
	MUST(filter_matches((struct str){0}, row, 1));
	buf_char(&term, '-');
	buf_str(&term, filter);
	if (filter.len && filter.len < FILTER_MAX - 1 && filter.at[0] != '-' &&
	    !memchr(filter.at, '"', filter.len) && !memchr(filter.at, ' ', filter.len) &&
	    !memchr(filter.at, '\t', filter.len) && !memchr(filter.at, '\n', filter.len) &&
	    !memchr(filter.at, '\r', filter.len) && !memchr(filter.at, '\v', filter.len) &&
	    !memchr(filter.at, '\f', filter.len))
		MUST(filter_matches(filter, row, 1) != filter_matches(buf_view(&term), row, 1));
	filter_matches(filter, row, 1);
	return 0;
}
