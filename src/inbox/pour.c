#include "inbox/pour.h"

#include "base/clock.h"
#include "wire/json.h"
#include "wire/text.h"

#define FLUSH_BYTES (48 * 1024)

// What a cut between two pieces leaves over: part of a UTF-8 sequence, or of a base64 group.
struct rest {
	struct json_carry text;
	uint8_t group[3];
	uint8_t count;
};

static void add_base64(struct pour *pour, const uint8_t *bytes, size_t len, struct rest *rest)
{
	while (len && rest->count && rest->count < 3) {
		rest->group[rest->count++] = *bytes++;
		len--;
	}
	if (rest->count == 3) {
		text_base64(pour->out, rest->group, 3);
		rest->count = 0;
	}
	text_base64(pour->out, bytes, len - len % 3);
	for (size_t i = len - len % 3; i < len; i++)
		rest->group[rest->count++] = bytes[i];
}

static void add(struct pour *pour, const void *bytes, size_t len, struct rest *rest)
{
	if (pour->base64)
		add_base64(pour, bytes, len, rest);
	else
		json_piece(pour->out, bytes, len, &rest->text);
}

fallible pour_flush(struct pour *pour)
{
	struct str text = buf_view(pour->out);

	if (!pour->x || !text.len)
		return OK;
	TRY(http_write(pour->x, text.at, text.len));
	buf_clear(pour->out);
	return OK;
}

fallible pour_stream(struct pour *pour, struct tape *tape, enum tape_stream stream, struct str tail)
{
	struct rest rest = {0};
	uint64_t offset = 0;
	size_t got = tape_bytes(tape, stream) != 0;

	while (got) {
		enum tape_stream from;

		TRY(tape_read(tape, &offset, &from, pour->room, pour->size, &got, CLOCK_NEVER),
		    "read the tape");
		if (!got || from != stream)
			continue;
		add(pour, pour->room, got, &rest);
		if (pour->out->len >= FLUSH_BYTES)
			TRY(pour_flush(pour));
	}
	if (tail.len)
		add(pour, tail.at, tail.len, &rest);
	if (pour->base64)
		text_base64(pour->out, rest.group, rest.count);
	else
		json_piece(pour->out, NULL, 0, &rest.text);
	return buf_ok(pour->out) ? OK : err_new(INTERNAL, "internal", "the answer did not fit");
}
