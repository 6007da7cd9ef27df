// Texts are valid UTF-8 in both directions: an incomplete character waits for its rest, and other
// bytes become U+FFFD. Times of events never go back, whatever the clock did.
#include "codec/cast.h"

#include <string.h>

#define CAST_SECONDS_MAX (400.0 * 86400)
#define US 1000000

static fallible cast_bad(const char *why)
{
	return err_hint(err_new(INVALID, "bad_cast", "this is no recording of a terminal: %s", why),
			"recordings are asciicast files of version 2");
}

void cast_begin(struct cast_writer *writer, const struct cast_head *head, struct buf *out)
{
	struct json_out json = json_to(out);

	writer->started_ms = head->started_ms;
	if (writer->time_count && (!writer->started_ms || writer->times[0].ms < writer->started_ms))
		writer->started_ms = writer->times[0].ms;
	writer->now_ms = writer->started_ms;
	json_begin(&json, '{');
	json_put_int(&json, "version", 2);
	json_put_int(&json, "width", head->width);
	json_put_int(&json, "height", head->height);
	if (writer->started_ms)
		json_put_int(&json, "timestamp", writer->started_ms / 1000);
	if (head->command.at)
		json_put_str(&json, "command", head->command);
	if (head->title.at)
		json_put_str(&json, "title", head->title);
	json_end(&json, '}');
	buf_char(out, '\n');
}

static void cast_piece(struct cast_writer *writer, int stream, struct str bytes, struct buf *out)
{
	while (!writer->is_terminal && bytes.len) {
		const char *end = memchr(bytes.at, '\n', bytes.len);
		size_t len = end ? (size_t)(end - bytes.at) : bytes.len;

		json_piece(out, bytes.at, len, &writer->carry[stream]);
		if (len)
			writer->had_return = bytes.at[len - 1] == '\r';
		if (!end)
			return;
		json_piece(out, writer->had_return ? "\n" : "\r\n", writer->had_return ? 1 : 2,
			   &writer->carry[stream]);
		writer->had_return = false;
		bytes = str_skip(bytes, len + 1);
	}
	if (bytes.len)
		json_piece(out, bytes.at, bytes.len, &writer->carry[stream]);
}

// Writes one event; none if it would have no text.
static void cast_put(struct cast_writer *writer, int stream, struct str bytes, bool is_last,
		     struct buf *out)
{
	int64_t ms = writer->now_ms - writer->started_ms;
	size_t before = out->len, head;

	buf_fmt(out, "[%lld.%03d,\"o\",\"", (long long)(ms / 1000), (int)(ms % 1000));
	head = out->len;
	cast_piece(writer, stream, bytes, out);
	if (is_last)
		json_piece(out, NULL, 0, &writer->carry[stream]);
	if (out->len == head && buf_ok(out)) {
		out->len = before;
		out->at[before] = '\0';
		return;
	}
	buf_text(out, "\"]\n");
}

void cast_add(struct cast_writer *writer, int stream, struct str bytes, uint64_t offset,
	      struct buf *out)
{
	while (bytes.len) {
		size_t len = bytes.len;

		while (writer->at < writer->time_count &&
		       writer->times[writer->at].offset <= offset) {
			if (writer->times[writer->at].ms > writer->now_ms)
				writer->now_ms = writer->times[writer->at].ms;
			writer->at++;
		}
		if (writer->at < writer->time_count &&
		    writer->times[writer->at].offset - offset < len)
			len = (size_t)(writer->times[writer->at].offset - offset);
		cast_put(writer, stream, (struct str){bytes.at, len}, false, out);
		offset += len;
		bytes = str_skip(bytes, len);
	}
}

void cast_end(struct cast_writer *writer, struct buf *out)
{
	for (int i = 0; i < 2; i++)
		cast_put(writer, i, STR(""), true, out);
}

static fallible cast_read(struct str line, enum json_type type, struct json **json)
{
	auto_err err = line.len > CAST_LINE_MAX ? cast_bad("a line is too long")
						: json_read(line, json);

	if (err)
		return cast_bad("a line is no JSON");
	if (json_type(*json) != type)
		return cast_bad("a line has another form");
	return OK;
}

static fallible cast_side(const struct json *head, const char *key, uint32_t *out)
{
	uint64_t side = 0;

	TRY(json_u64(json_get(head, key), key, 1, CAST_SIDE_MAX, &side));
	if (!side)
		return cast_bad("its head has no size");
	*out = (uint32_t)side;
	return OK;
}

fallible cast_read_head(struct str line, struct json **json, struct cast_head *out)
{
	uint64_t version = 0;
	double timestamp = 0;

	TRY(cast_read(line, JSON_OBJECT, json));
	*out = (struct cast_head){0};
	TRY(json_u64(json_get(*json, "version"), "version", 0, UINT32_MAX, &version));
	if (version != 2)
		return cast_bad("its version is not 2");
	TRY(cast_side(*json, "width", &out->width));
	TRY(cast_side(*json, "height", &out->height));
	TRY(json_double(json_get(*json, "timestamp"), "timestamp", 0, 1e12, &timestamp));
	out->started_ms = (int64_t)(timestamp * 1000);
	TRY(json_str(json_get(*json, "command"), "command", &out->command));
	return json_str(json_get(*json, "title"), "title", &out->title);
}

fallible cast_read_event(struct str line, struct json **json, struct cast_event *out)
{
	double seconds = -1;
	struct str kind = {0};

	TRY(cast_read(line, JSON_ARRAY, json));
	if (json_count(*json) != 3 || json_type(json_at(*json, 2)) != JSON_STRING)
		return cast_bad("an event has three parts");
	TRY(json_double(json_at(*json, 0), "time", 0, CAST_SECONDS_MAX, &seconds));
	TRY(json_str(json_at(*json, 1), "kind", &kind));
	if (seconds < 0 || kind.len != 1)
		return cast_bad("an event has a time and a kind of one letter");
	out->at_us = (uint64_t)(seconds * US);
	out->kind = kind.at[0];
	out->text = json_chars(json_at(*json, 2));
	return OK;
}
