// Parses byte ranges. A Range that is malformed or has several parts is ignored, as RFC 9110
// allows; a Content-Range that is malformed is an error. Numbers above MOST are malformed, so no
// sum overflows.
#include "codec/range.h"

#define MOST (UINT64_MAX / 2)

// The text before a separator that must exist.
static bool range_before(struct str *rest, char mark, struct str *out)
{
	return memchr(rest->at, mark, rest->len) && str_cut(rest, mark, out);
}

// A suffix range: the last bytes.
static enum range_verdict range_suffix(struct str text, uint64_t size, uint64_t *first,
				       uint64_t *len)
{
	uint64_t count;

	if (!str_to_u64(text, 0, MOST, &count))
		return RANGE_WHOLE;
	if (count == 0 || size == 0)
		return RANGE_OUTSIDE;
	*len = count < size ? count : size;
	*first = size - *len;
	return RANGE_PART;
}

enum range_verdict range_read(struct str text, uint64_t size, uint64_t *first, uint64_t *len)
{
	struct str from;
	uint64_t begin, last = MOST;

	if (!text.at || !str_starts(text, "bytes="))
		return RANGE_WHOLE;
	text = str_trim(str_skip(text, 6));
	if (!text.len || memchr(text.at, ',', text.len) || !range_before(&text, '-', &from))
		return RANGE_WHOLE;
	if (!from.len)
		return range_suffix(text, size, first, len);
	if (!str_to_u64(from, 0, MOST, &begin) ||
	    (text.len && (!str_to_u64(text, 0, MOST, &last) || last < begin)))
		return RANGE_WHOLE;
	if (begin >= size)
		return RANGE_OUTSIDE;
	if (last >= size)
		last = size - 1;
	*first = begin;
	*len = last - begin + 1;
	return RANGE_PART;
}

bool range_content(struct str text, uint64_t *first, uint64_t *len, uint64_t *total)
{
	struct str range, from;
	uint64_t size, begin, last;

	if (!text.at || !str_starts(text, "bytes "))
		return false;
	text = str_trim(str_skip(text, 6));
	if (!text.len || !range_before(&text, '/', &range) || !str_to_u64(text, 0, MOST, &size))
		return false;
	if (str_is(range, "*")) {
		*first = *total = size;
		*len = 0;
		return true;
	}
	if (!range.len || !range_before(&range, '-', &from) || !str_to_u64(from, 0, MOST, &begin) ||
	    !str_to_u64(range, begin, MOST, &last) || last >= size)
		return false;
	*first = begin;
	*len = last - begin + 1;
	*total = size;
	return true;
}
