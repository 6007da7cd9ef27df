// Encodes tape output for JSON: as text, with invalid UTF-8 replaced, or as base64. A cut between
// two pieces can split a UTF-8 sequence or a base64 group; the left-over bytes are carried into the
// next piece.
#include "toolbox/stream_json.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/json.h"
#include "codec/text.h"

#define SMALL (32 * 1024) // largest answer that is sent in one piece
#define PIECE (64 * 1024) // piece of a large answer
#define FLUSH_BYTES (48 * 1024)

// Bytes left over at a cut: part of a UTF-8 sequence or of a base64 group.
struct rest {
	struct json_carry text;
	uint8_t group[3];
	uint8_t count;
};

static void add_base64(struct stream_json *writer, const uint8_t *bytes, size_t len,
		       struct rest *rest)
{
	while (len && rest->count && rest->count < 3) {
		rest->group[rest->count++] = *bytes++;
		len--;
	}
	if (rest->count == 3) {
		text_base64(writer->out, rest->group, 3);
		rest->count = 0;
	}
	text_base64(writer->out, bytes, len - len % 3);
	for (size_t i = len - len % 3; i < len; i++)
		rest->group[rest->count++] = bytes[i];
}

static void stream_json_add_text(struct stream_json *writer, const char *bytes, size_t len,
				 struct rest *rest)
{
	while (len) {
		const char *nul = writer->no_nul ? memchr(bytes, 0, len) : NULL;
		size_t part = nul ? (size_t)(nul - bytes) : len;

		if (part)
			json_piece(writer->out, bytes, part, &rest->text);
		part += nul != NULL;
		bytes += part;
		len -= part;
	}
}

static void stream_json_add(struct stream_json *writer, const void *bytes, size_t len,
			    struct rest *rest)
{
	if (writer->base64)
		add_base64(writer, bytes, len, rest);
	else
		stream_json_add_text(writer, bytes, len, rest);
}

struct funnel {
	struct stream_json *pour;
	struct rest *rest;
};

static void stream_json_give(void *arg, const char *bytes, size_t len)
{
	struct funnel *funnel = arg;

	stream_json_add(funnel->pour, bytes, len, funnel->rest);
}

static void stream_json_put(struct stream_json *writer, const char *bytes, size_t len,
			    struct rest *rest)
{
	struct funnel funnel = {writer, rest};

	if (!writer->filter) {
		stream_json_add(writer, bytes, len, rest);
		return;
	}
	writer->filter->give = stream_json_give;
	writer->filter->arg = &funnel;
	if (len)
		shell_sift(writer->filter, bytes, len);
	else
		shell_sift_end(writer->filter);
}

static fallible toolbox_stream_json_flush(struct stream_json *writer, size_t least)
{
	struct str text = buf_view(writer->out);

	if (!writer->x || text.len < least)
		return OK;
	TRY(http_write(writer->x, text.at, text.len));
	buf_clear(writer->out);
	return OK;
}

fallible stream_json_flush(struct stream_json *writer)
{
	return toolbox_stream_json_flush(writer, FLUSH_BYTES);
}

fallible stream_json_begin(struct stream_json *writer, struct http *x, uint64_t bytes, size_t more)
{
	bool small = bytes + more <= SMALL;

	writer->x = small ? NULL : x;
	writer->size = small ? bytes : PIECE;
	writer->room = bytes ? arena_take(x->arena, writer->size) : NULL;
	return small ? OK : http_begin(x, 200, NULL);
}

fallible stream_json_end(struct stream_json *writer, struct http *x)
{
	if (!writer->x)
		return http_reply_json(x, 200, writer->out);
	TRY(toolbox_stream_json_flush(writer, 1));
	return http_end(x);
}

fallible stream_json_member(struct stream_json *writer, struct tape *tape, enum tape_stream stream,
			    struct str tail)
{
	struct rest rest = {0};
	uint64_t offset = 0;
	size_t got = tape_bytes(tape, stream) != 0;

	buf_text(writer->out, stream == TAPE_STDOUT ? ",\"stdout\":\"" : ",\"stderr\":\"");
	while (got && !(writer->so_far && offset >= writer->until)) {
		enum tape_stream from;
		size_t size = writer->size;

		if (writer->so_far && size > writer->until - offset)
			size = (size_t)(writer->until - offset);
		TRY(tape_read(tape, &offset, &from, writer->room, size, &got, CLOCK_NEVER),
		    "read the tape");
		if (!got || from != stream)
			continue;
		stream_json_put(writer, writer->room, got, &rest);
		TRY(stream_json_flush(writer));
	}
	if (writer->filter)
		stream_json_put(writer, NULL, 0, &rest);
	if (tail.len)
		stream_json_add(writer, tail.at, tail.len, &rest);
	if (writer->base64)
		text_base64(writer->out, rest.group, rest.count);
	else if (!writer->so_far)
		json_piece(writer->out, NULL, 0, &rest.text);
	buf_char(writer->out, '"');
	return buf_ok(writer->out) ? OK : err_new(INTERNAL, "internal", "the answer did not fit");
}
