#include "inbox/pour.h"

#include "base/clock.h"
#include "base/mem.h"
#include "wire/json.h"
#include "wire/text.h"

#define SMALL (32 * 1024) // answers up to this are one piece
#define PIECE (64 * 1024) // of a large one
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

static void inbox_pour_add_text(struct pour *pour, const char *bytes, size_t len, struct rest *rest)
{
	while (len) {
		const char *nul = pour->no_nul ? memchr(bytes, 0, len) : NULL;
		size_t part = nul ? (size_t)(nul - bytes) : len;

		if (part)
			json_piece(pour->out, bytes, part, &rest->text);
		part += nul != NULL;
		bytes += part;
		len -= part;
	}
}

static void inbox_pour_add(struct pour *pour, const void *bytes, size_t len, struct rest *rest)
{
	if (pour->base64)
		add_base64(pour, bytes, len, rest);
	else
		inbox_pour_add_text(pour, bytes, len, rest);
}

struct funnel {
	struct pour *pour;
	struct rest *rest;
};

static void give(void *arg, const char *bytes, size_t len)
{
	struct funnel *funnel = arg;

	inbox_pour_add(funnel->pour, bytes, len, funnel->rest);
}

static void inbox_pour_put(struct pour *pour, const char *bytes, size_t len, struct rest *rest)
{
	struct funnel funnel = {pour, rest};

	if (!pour->sieve) {
		inbox_pour_add(pour, bytes, len, rest);
		return;
	}
	pour->sieve->give = give;
	pour->sieve->arg = &funnel;
	if (len)
		shell_sift(pour->sieve, bytes, len);
	else
		shell_sift_end(pour->sieve);
}

static fallible inbox_pour_flush(struct pour *pour, size_t least)
{
	struct str text = buf_view(pour->out);

	if (!pour->x || text.len < least)
		return OK;
	TRY(http_write(pour->x, text.at, text.len));
	buf_clear(pour->out);
	return OK;
}

fallible pour_flush(struct pour *pour)
{
	return inbox_pour_flush(pour, FLUSH_BYTES);
}

fallible pour_begin(struct pour *pour, struct http *x, uint64_t bytes, size_t more)
{
	bool small = bytes + more <= SMALL;

	pour->x = small ? NULL : x;
	pour->size = small ? bytes : PIECE;
	pour->room = bytes ? arena_take(x->arena, pour->size) : NULL;
	return small ? OK : http_begin(x, 200, NULL);
}

fallible pour_end(struct pour *pour, struct http *x)
{
	if (!pour->x)
		return http_reply_json(x, 200, pour->out);
	TRY(inbox_pour_flush(pour, 1));
	return http_end(x);
}

fallible pour_stream(struct pour *pour, struct tape *tape, enum tape_stream stream, struct str tail)
{
	struct rest rest = {0};
	uint64_t offset = 0;
	size_t got = tape_bytes(tape, stream) != 0;

	while (got && !(pour->so_far && offset >= pour->until)) {
		enum tape_stream from;
		size_t size = pour->size;

		if (pour->so_far && size > pour->until - offset)
			size = (size_t)(pour->until - offset);
		TRY(tape_read(tape, &offset, &from, pour->room, size, &got, CLOCK_NEVER),
		    "read the tape");
		if (!got || from != stream)
			continue;
		inbox_pour_put(pour, pour->room, got, &rest);
		TRY(pour_flush(pour));
	}
	if (pour->sieve)
		inbox_pour_put(pour, NULL, 0, &rest);
	if (tail.len)
		inbox_pour_add(pour, tail.at, tail.len, &rest);
	if (pour->base64)
		text_base64(pour->out, rest.group, rest.count);
	else if (!pour->so_far)
		json_piece(pour->out, NULL, 0, &rest.text);
	return buf_ok(pour->out) ? OK : err_new(INTERNAL, "internal", "the answer did not fit");
}
