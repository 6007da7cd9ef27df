// The grammar of the HTML standard, 9.2.6: lines end with CR, LF or both; "name: value" with one
// blank removed; comments begin with a colon; an empty line dispatches the event if it has data.
#include "codec/sse.h"

#include "base/auto.h"

void sse_done(struct sse_reader *reader)
{
	buf_done(&reader->line);
	buf_done(&reader->event);
	buf_done(&reader->id);
	buf_done(&reader->data);
}

static void take_field(struct sse_reader *reader, struct str name, struct str value)
{
	if (str_is(name, "data")) {
		if (reader->has_data)
			buf_char(&reader->data, '\n');
		buf_str(&reader->data, value);
		reader->has_data = true;
	} else if (str_is(name, "event")) {
		buf_clear(&reader->event);
		buf_str(&reader->event, value);
	} else if (str_is(name, "id") && !(value.len && memchr(value.at, 0, value.len))) {
		buf_clear(&reader->id);
		buf_str(&reader->id, value);
	}
}

static void sse_take_line(struct sse_reader *reader, struct str line)
{
	struct str name, value = line;
	bool has_colon = line.len && memchr(line.at, ':', line.len);

	str_cut(&value, ':', &name);
	if (!has_colon) {
		take_field(reader, line, STR(""));
		return;
	}
	if (name.len == 0)
		return;
	if (value.len && value.at[0] == ' ')
		value = str_skip(value, 1);
	take_field(reader, name, value);
}

static bool is_too_large(const struct sse_reader *reader)
{
	return !buf_ok(&reader->line) || !buf_ok(&reader->data) || !buf_ok(&reader->event) ||
	       !buf_ok(&reader->id);
}

static void sse_forget_returned(struct sse_reader *reader)
{
	if (!reader->told)
		return;
	reader->told = reader->has_data = false;
	buf_clear(&reader->data);
	buf_clear(&reader->event);
}

// Moves bytes up to the end of a line to `line`. False: the line is incomplete.
static bool fill_line(struct sse_reader *reader, struct str *in)
{
	size_t len = 0;

	if (reader->after_cr && in->len) {
		reader->after_cr = false;
		if (in->at[0] == '\n')
			*in = str_skip(*in, 1);
	}
	while (len < in->len && in->at[len] != '\n' && in->at[len] != '\r')
		len++;
	buf_add(&reader->line, in->at, len);
	*in = str_skip(*in, len);
	if (in->len == 0)
		return false;
	reader->after_cr = in->at[0] == '\r';
	*in = str_skip(*in, 1);
	return true;
}

enum sse_verdict sse_read(struct sse_reader *reader, struct str *in, struct sse_event *out)
{
	sse_forget_returned(reader);
	while (in->len && fill_line(reader, in)) {
		struct str line = buf_view(&reader->line);

		if (!buf_ok(&reader->line))
			return SSE_TOO_LARGE;
		if (!reader->begun && str_starts(line, "\xef\xbb\xbf"))
			line = str_skip(line, 3);
		reader->begun = true;
		if (line.len)
			sse_take_line(reader, line);
		else
			reader->told = true;
		buf_clear(&reader->line);
		if (is_too_large(reader))
			return SSE_TOO_LARGE;
		if (reader->told && reader->has_data) {
			*out = (struct sse_event){buf_view(&reader->event), buf_view(&reader->id),
						  buf_view(&reader->data)};
			return SSE_EVENT;
		}
		sse_forget_returned(reader);
	}
	return is_too_large(reader) ? SSE_TOO_LARGE : SSE_MORE;
}

static void sse_put_line(struct buf *out, const char *name, struct str value)
{
	buf_text(out, name);
	for (size_t i = 0; i < value.len; i++)
		if (value.at[i] != '\r' && value.at[i] != '\n')
			buf_char(out, value.at[i]);
	buf_char(out, '\n');
}

void sse_put(struct buf *out, struct str event, struct str id, struct str data)
{
	if (event.len)
		sse_put_line(out, "event: ", event);
	if (id.len)
		sse_put_line(out, "id: ", id);
	do {
		size_t len = 0;

		while (len < data.len && data.at[len] != '\n' && data.at[len] != '\r')
			len++;
		buf_text(out, "data: ");
		buf_add(out, data.at, len);
		buf_char(out, '\n');
		if (len == data.len)
			break;
		len += 1 + (data.at[len] == '\r' && len + 1 < data.len && data.at[len + 1] == '\n');
		data = str_skip(data, len);
	} while (true);
	buf_char(out, '\n');
}
