// Readers that are attached to a tape: they get the log, kept or not (tape_window.c), and output
// for which the disk had no room (tape_chunk.c). `missed` and `cut` of a reader tell what it did
// not get.
#include "box/tape_private.h"
#include "types/timers.h"

void tape_attach(struct tape_reader *reader, struct tape *tape, uint64_t offset)
{
	*reader = (struct tape_reader){
		.tape = tape,
		.offset = offset,
		.passed = tape->chunks_end,
		.moved_ms = loop_now(tape->loop),
		// Bytes that passed through chunks have no offset: whether this reader missed any
		// is unknown.
		.cut = tape->unkept > 0,
	};
	tape->absent.until = 0; // most likely the absent reader
	link_add(&tape->readers, &reader->link);
}

void tape_reattach(struct tape_reader *reader, struct tape *tape)
{
	struct tape_reader before = *reader;

	tape_attach(reader, tape, before.offset);
	reader->missed = before.missed;
	reader->cut = true;
	reader->taken = before.taken;
	reader->arg = before.arg;
}

void tape_detach(struct tape_reader *reader)
{
	struct tape *tape = reader->tape;
	uint64_t place;
	bool more;

	if (!tape)
		return;
	more = !tape_reader_is_done(reader);
	place = tape_window_place(tape, reader);
	if (more && (tape->absent.until <= loop_now(tape->loop) || place < tape->absent.place))
		tape->absent.place = place;
	if (more)
		tape->absent.until = loop_now(tape->loop) + timer_ms(TIMER_READER);
	tape_reader_leave(reader);
}

bool tape_reader_is_ready(const struct tape_reader *reader)
{
	const struct tape *tape = reader->tape;

	return !tape || tape->ended || reader->passed < tape->chunks_end ||
	       reader->offset != tape->end.offset;
}

bool tape_reader_is_done(const struct tape_reader *reader)
{
	const struct tape *tape = reader->tape;

	if (!tape)
		return !reader->detached;
	return tape->ended && reader->offset >= tape_reached(tape) &&
	       reader->passed == tape->chunks_end;
}

static void reader_skip(struct tape_reader *reader, uint64_t offset)
{
	reader->missed += offset - reader->offset;
	reader->cut = true;
	reader->offset = offset;
}

// Reads from the log, which has bytes at this offset.
static fallible reader_fetch(struct tape_reader *reader, enum tape_stream *out_stream, void *room,
			     size_t size, size_t *out_len)
{
	struct tape *tape = reader->tape;
	const struct tape_window *window = tape->window;
	struct err *err;

	if (!window || reader->offset < window->gap.offset)
		return tape_fetch(tape, NULL, window ? window->gap.place : tape->end.place,
				  reader->offset, out_stream, room, size, out_len);
	if (reader->at.place < window->start.place || reader->at.offset > reader->offset)
		reader->at = tape_window_find(tape, reader->offset);
	err = tape_fetch(tape, &reader->at, tape->end.place, reader->offset, out_stream, room, size,
			 out_len);
	condition_signal(&tape->drained);
	return err;
}

fallible tape_read_on(struct tape_reader *reader, enum tape_stream *out_stream, void *room,
		      size_t size, size_t *out_len, int64_t deadline)
{
	for (;;) {
		struct tape *tape = reader->tape;
		struct tape_chunk *chunk = tape ? tape_chunk_next(reader) : NULL;
		struct err *err;

		if (!tape)
			return err_new(
				BAD_PEER, "reader_detached",
				"nothing was read for too long: output that is not kept is lost");
		reader->moved_ms = loop_now(tape->loop);
		if (chunk && chunk->at <= reader->offset) {
			*out_stream = chunk->stream;
			*out_len = tape_chunk_read(reader, chunk, room, size);
			tape_chunks_trim(tape);
			return OK;
		}
		if (tape->window && reader->offset >= tape->window->gap.offset &&
		    reader->offset < tape->window->start.offset)
			reader_skip(reader, tape->window->start.offset);
		if (chunk && chunk->at > reader->offset && size > chunk->at - reader->offset)
			size = (size_t)(chunk->at - reader->offset);
		if (reader->offset < tape->end.offset) {
			TRY(reader_fetch(reader, out_stream, room, size, out_len));
			reader->offset += *out_len;
			return OK;
		}
		if (tape->ended && reader->offset < tape_reached(tape))
			reader_skip(reader, tape_reached(tape));
		if (tape->ended || reader->offset > tape->end.offset)
			return tape_read(tape, &reader->offset, out_stream, room, size, out_len, 0);
		reader->waiting = true;
		err = condition_wait(&tape->more, deadline);
		reader->waiting = false;
		TRY(err, "wait for output");
	}
}
