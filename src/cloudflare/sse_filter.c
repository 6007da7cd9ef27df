// A line is judged by its first SSE_FILTER_START bytes; the rest passes through unbuffered. The
// type is taken from the fixed start of our own events' JSON, `data: {"type":"…`, without parsing.
#include "cloudflare/sse_filter.h"

static struct str sse_filter_type_of(struct str line)
{
	static const char mark[] = "data: {\"type\":\"";
	struct str type = {0};

	if (!str_starts(line, mark))
		return type;
	line = str_skip(line, sizeof(mark) - 1);
	str_cut(&line, '"', &type);
	return type;
}

// Decides whether the line that begins so is dropped, passed, or gets an event: line.
static void sse_filter_decide(struct sse_filter *filter, struct buf *out)
{
	struct str start = {filter->start, filter->len}, type = sse_filter_type_of(start);

	filter->decided = true;
	if (str_starts(start, "id: ") && str_ends(start, "\n")) {
		memcpy(filter->id, filter->start, filter->len);
		filter->id_len = filter->len;
		filter->dropped = true;
		return;
	}
	if (type.at && filter->drop && str_is(type, filter->drop)) {
		filter->dropped = filter->gap = true;
	} else if (filter->gap && str_is(start, "\n")) {
		filter->dropped = true; // the empty line after the dropped one
		filter->gap = false;
	}
	if (!filter->dropped) {
		buf_add(out, filter->id, filter->id_len);
		if (filter->names && type.at)
			buf_fmt(out, "event: " STR_FMT "\n", STR_ARG(type));
		buf_add(out, filter->start, filter->len);
	}
	filter->id_len = 0;
}

void sse_filter_add(struct sse_filter *filter, struct str bytes, struct buf *out)
{
	while (bytes.len) {
		const char *end = memchr(bytes.at, '\n', bytes.len);
		size_t len = end ? (size_t)(end - bytes.at) + 1 : bytes.len;

		if (!filter->decided) {
			size_t room = SSE_FILTER_START - filter->len;

			len = len < room ? len : room;
			end = len && bytes.at[len - 1] == '\n' ? end : NULL;
			memcpy(filter->start + filter->len, bytes.at, len);
			filter->len += len;
			if (end || filter->len == SSE_FILTER_START)
				sse_filter_decide(filter, out);
		} else if (!filter->dropped) {
			buf_add(out, bytes.at, len);
		}
		bytes = str_skip(bytes, len);
		if (end) {
			filter->len = 0;
			filter->decided = filter->dropped = false;
		}
	}
}

void sse_filter_end(struct sse_filter *filter, struct buf *out)
{
	if (filter->len && !filter->decided)
		sse_filter_decide(filter, out);
}
