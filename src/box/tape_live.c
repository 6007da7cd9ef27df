// Output that finds no room on the disk is not kept, but readers that are attached still get it: it
// waits for them in a window in memory. The slowest of them slows the writer, as a pipe would; a
// reader that takes nothing for DETACH_MS is detached, and the writer goes on.
//
// A chunk of the window lies behind the kept byte at its offset: unkept bytes have no offset of
// their own. A reader counts them apart, in the order of their arrival.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/tape_inner.h"

#define WINDOW_MAX (8ull << 20)
#define WINDOW_LEAST (256ull << 10) // of each, when all together have WINDOWS_MAX
#define WINDOWS_MAX (64ull << 20)
#define DETACH_MS 30000
#define LOOK_MS 1000
#define STALL_MS 200 // until a tape without room looks for some again

struct chunk {
	struct link link;
	uint64_t at;	// offset of the kept byte behind which it came
	uint64_t begin; // unkept bytes before it
	enum tape_stream stream;
	size_t len;
	char bytes[];
};

static uint64_t all_windows; // bytes of all tapes

static void chunk_free(struct tape *tape, struct chunk *chunk)
{
	link_drop(&chunk->link);
	tape->window_bytes -= chunk->len;
	all_windows -= chunk->len;
	free(chunk);
}

// Chunks that every reader has had.
static void window_trim(struct tape *tape)
{
	uint64_t least = tape->window_end;

	list_each (at, &tape->readers) {
		const struct tape_reader *reader = link_of(at, struct tape_reader, link);

		least = reader->passed < least ? reader->passed : least;
	}
	list_each (at, &tape->window) {
		struct chunk *chunk = link_of(at, struct chunk, link);

		if (chunk->begin + chunk->len <= least)
			chunk_free(tape, chunk);
	}
	bell_ring(&tape->drained);
}

void tape_window_free(struct tape *tape)
{
	list_each (at, &tape->window)
		chunk_free(tape, link_of(at, struct chunk, link));
}

void tape_attach(struct tape_reader *reader, struct tape *tape, uint64_t offset)
{
	*reader = (struct tape_reader){
		.tape = tape,
		.offset = offset,
		.passed = tape->window_end,
		.moved_ms = loop_now(tape->loop),
	};
	link_add(&tape->readers, &reader->link);
}

void tape_detach(struct tape_reader *reader)
{
	if (!reader->tape)
		return;
	link_drop(&reader->link);
	if (!link_empty(&reader->tape->window))
		window_trim(reader->tape);
	reader->tape = NULL;
}

static struct str tape_box(const struct tape *tape)
{
	struct str rest = str_of(tape->name ? tape->name : ""), box = {0};

	return str_cut(&rest, '/', &box) ? box : STR("");
}

void tape_tell_cut(const struct tape *tape, const char *reason)
{
	char box[64], file[64];

	snprintf(box, sizeof(box), STR_FMT, STR_ARG(tape_box(tape)));
	snprintf(file, sizeof(file), "%s", tape->name ? tape->name : "");
	log_event(LOG_WARN, "output.not_kept", "sandbox", box, "tape", file, "reason", reason,
		  NULL);
}

bool tape_takes(const struct tape *tape)
{
	return tape_keeps(tape, 1) > 0;
}

bool tape_lacks_room(const struct tape *tape)
{
	return tape->stalled;
}

bool tape_is_stalled(const struct tape *tape)
{
	return tape->stalled && loop_now(tape->loop) < tape->retry_at;
}

// A plain tape is read once, and has no holes: it ends here.
void tape_stall(struct tape *tape, const char *reason)
{
	if (!tape->stalled)
		tape_tell_cut(tape, reason);
	tape->stalled = true;
	tape->retry_at = loop_now(tape->loop) + STALL_MS;
	if (!tape->name)
		tape->cap = tape->kept;
}

static void detach_slow(struct tape *tape)
{
	int64_t now = loop_now(tape->loop);

	list_each (at, &tape->readers) {
		struct tape_reader *reader = link_of(at, struct tape_reader, link);
		char box[64], offset[24];

		if (now - reader->moved_ms < DETACH_MS || reader->passed == tape->window_end)
			continue;
		snprintf(box, sizeof(box), STR_FMT, STR_ARG(tape_box(tape)));
		snprintf(offset, sizeof(offset), "%llu", (unsigned long long)reader->offset);
		log_event(LOG_WARN, "output.reader_detached", "sandbox", box, "tape",
			  tape->name ? tape->name : "", "offset", offset, NULL);
		reader->detached = true;
		tape_detach(reader);
	}
}

static uint64_t window_room(const struct tape *tape)
{
	uint64_t max = all_windows < WINDOWS_MAX ? WINDOW_MAX : WINDOW_LEAST;

	return tape->window_bytes < max ? max - tape->window_bytes : 0;
}

bool tape_window_fits(const struct tape *tape, size_t len)
{
	return link_empty(&tape->readers) || window_room(tape) >= len;
}

void tape_pass(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len)
{
	struct chunk *chunk;

	while (!tape_window_fits(tape, len) && tape->window_bytes) {
		auto_err err = bell_wait(&tape->drained, loop_now(tape->loop) + LOOK_MS);

		if (err && err_kind(err) != ERR_TIMEOUT)
			return; // cancelled: nobody is waited for
		detach_slow(tape);
	}
	if (!len || link_empty(&tape->readers))
		return;
	chunk = mem_grow(NULL, 1, sizeof(*chunk) + len);
	*chunk = (struct chunk){
		.at = tape->end.offset, .begin = tape->window_end, .stream = stream, .len = len};
	memcpy(chunk->bytes, bytes, len);
	link_init(&chunk->link);
	link_add(&tape->window, &chunk->link);
	tape->window_end += len;
	tape->window_bytes += len;
	all_windows += len;
	bell_ring(&tape->more);
}

static struct chunk *chunk_next(const struct tape_reader *reader)
{
	list_each (at, &reader->tape->window) {
		struct chunk *chunk = link_of(at, struct chunk, link);

		if (chunk->begin + chunk->len > reader->passed)
			return chunk;
	}
	return NULL;
}

static size_t chunk_read(struct tape_reader *reader, const struct chunk *chunk, void *room,
			 size_t size)
{
	size_t skip = (size_t)(reader->passed - chunk->begin), left = chunk->len - skip;

	if (left > size)
		left = size;
	memcpy(room, chunk->bytes + skip, left);
	reader->passed += left;
	return left;
}

bool tape_reader_is_ready(const struct tape_reader *reader)
{
	return !reader->tape || reader->passed < reader->tape->window_end ||
	       tape_is_ready(reader->tape, reader->offset);
}

bool tape_reader_is_done(const struct tape_reader *reader)
{
	const struct tape *tape = reader->tape;

	return !tape || (tape->ended && reader->offset >= tape->end.offset &&
			 reader->passed == tape->window_end);
}

fallible tape_read_on(struct tape_reader *reader, enum tape_stream *out_stream, void *room,
		      size_t size, size_t *out_len, int64_t deadline)
{
	for (;;) {
		struct tape *tape = reader->tape;
		struct chunk *chunk = tape ? chunk_next(reader) : NULL;

		if (!tape)
			return err_new(
				BAD_PEER, "reader_detached",
				"nothing was read for too long: output that is not kept is lost");
		reader->moved_ms = loop_now(tape->loop);
		if (chunk && chunk->at <= reader->offset) {
			*out_stream = chunk->stream;
			*out_len = chunk_read(reader, chunk, room, size);
			window_trim(tape);
			return OK;
		}
		if (chunk && size > chunk->at - reader->offset)
			size = (size_t)(chunk->at - reader->offset);
		if (reader->offset < tape->end.offset || tape->ended)
			return tape_read(tape, &reader->offset, out_stream, room, size, out_len,
					 deadline);
		if (reader->offset > tape->end.offset)
			return tape_read(tape, &reader->offset, out_stream, room, size, out_len, 0);
		TRY(bell_wait(&tape->more, deadline), "wait for output");
	}
}
