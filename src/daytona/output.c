// Copies a tape into an answer as the client reads it. A small answer is one reply, a long one is
// sent in pieces: memory is bounded by one piece.
#include "daytona/output.h"

#include "base/clock.h"

#define PIECE (64 * 1024)

void output_done(struct output *output)
{
	buf_done(&output->out);
}

static fallible output_flush(struct output *output, const char *type)
{
	struct buf *out = &output->out;
	struct err *err;

	if (!buf_ok(out))
		return err_new(INTERNAL, "internal", "a piece of output did not fit");
	if (!output->begun)
		TRY(http_begin(output->x, 200, type));
	output->begun = true;
	err = http_write(output->x, out->at, out->len);
	buf_clear(out);
	return err;
}

static bool output_wants(enum output_part part, enum tape_stream stream)
{
	return part == OUTPUT_BOTH || part == OUTPUT_MARKED ||
	       (part == OUTPUT_STDERR) == (stream == TAPE_STDERR);
}

static fallible output_copy(struct output *output, struct tape *tape, uint64_t until,
			    enum output_part part, bool raw)
{
	char *room = arena_take(output->x->arena, PIECE);
	enum tape_stream stream, before = TAPE_STREAMS;
	struct json_carry carry = {0};
	uint64_t offset = 0;
	size_t len = 1;

	while (offset < until) {
		size_t most = until - offset < PIECE ? (size_t)(until - offset) : PIECE;

		TRY(tape_read(tape, &offset, &stream, room, most, &len, CLOCK_NEVER));
		if (!len)
			break;
		if (part == OUTPUT_MARKED && stream != before) {
			const char *mark = stream == TAPE_STDERR ? OUTPUT_MARK_STDERR
								 : OUTPUT_MARK_STDOUT;

			if (raw)
				buf_text(&output->out, mark);
			else
				json_piece(&output->out, mark, strlen(mark), &carry);
			before = stream;
		}
		if (output_wants(part, stream) && raw)
			buf_add(&output->out, room, len);
		else if (output_wants(part, stream))
			json_piece(&output->out, room, len, &carry);
		if (output->out.len > OUTPUT_OUT_MAX / 2)
			TRY(output_flush(output, raw ? "text/plain" : "application/json"));
	}
	if (!raw)
		json_piece(&output->out, NULL, 0, &carry);
	return OK;
}

fallible output_add(struct output *output, struct tape *tape, uint64_t until, enum output_part part)
{
	return output_copy(output, tape, until, part, false);
}

fallible output_add_raw(struct output *output, struct tape *tape, uint64_t until)
{
	return output_copy(output, tape, until, OUTPUT_MARKED, true);
}

fallible output_end(struct output *output)
{
	if (!output->begun)
		return http_reply_json(output->x, 200, &output->out);
	return http_end_with(output->x, buf_view(&output->out));
}
