// Output for which the disk has no room waits in memory chunks for attached readers. The slowest
// reader slows the writer, as a pipe would; a reader that takes nothing for TIMER_READER is
// detached, and the writer goes on.
//
// A chunk follows the log byte at its offset. Bytes in chunks have no offset of their own: a reader
// counts them separately, in order of arrival.
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/tape_private.h"
#include "types/event.h"
#include "types/timers.h"

#define CHUNKS_MAX (8ull << 20)	    // of a tape
#define CHUNKS_LEAST (256ull << 10) // of each tape, once all together have CHUNKS_ALL
#define CHUNKS_ALL (64ull << 20)
#define STALL_MS 200 // until a tape without room tries again

static uint64_t all_chunks; // bytes of all tapes

static void chunk_free(struct tape *tape, struct tape_chunk *chunk)
{
	link_drop(&chunk->link);
	tape->chunk_bytes -= chunk->len;
	all_chunks -= chunk->len;
	free(chunk);
}

// Frees chunks that every reader has read.
void tape_chunks_trim(struct tape *tape)
{
	uint64_t least = tape->chunks_end;

	list_each (at, &tape->readers) {
		const struct tape_reader *reader = link_of(at, struct tape_reader, link);

		least = reader->passed < least ? reader->passed : least;
	}
	list_each (at, &tape->chunks) {
		struct tape_chunk *chunk = link_of(at, struct tape_chunk, link);

		if (chunk->begin + chunk->len <= least)
			chunk_free(tape, chunk);
	}
	condition_signal(&tape->drained);
}

void tape_chunks_free(struct tape *tape)
{
	list_each (at, &tape->chunks)
		chunk_free(tape, link_of(at, struct tape_chunk, link));
}

bool tape_is_followed(const struct tape *tape)
{
	return !link_empty(&tape->readers) || loop_now(tape->loop) < tape->absent.until;
}

void tape_await_reader(struct tape *tape)
{
	tape->absent.place = tape->window ? tape->window->start.place : 0;
	tape->absent.until = loop_now(tape->loop) + timer_ms(TIMER_READER);
}

void tape_reader_leave(struct tape_reader *reader)
{
	struct tape *tape = reader->tape;

	link_drop(&reader->link);
	reader->tape = NULL;
	tape_chunks_trim(tape);
}

void tape_hurry(struct tape *tape)
{
	tape->hurried = true;
	condition_signal(&tape->drained);
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
	event_publish(EVENT_OUTPUT_CUT, "sandbox", box, "tape", file, "reason", reason, NULL);
}

bool tape_lacks_room(const struct tape *tape)
{
	return tape->stalled;
}

bool tape_is_stalled(const struct tape *tape)
{
	return tape->stalled && loop_now(tape->loop) < tape->retry_at;
}

// A plain tape has no holes: it ends here.
void tape_stall(struct tape *tape, const char *reason)
{
	if (!tape->stalled)
		tape_tell_cut(tape, reason);
	tape->stalled = true;
	tape->retry_at = loop_now(tape->loop) + STALL_MS;
	if (!tape->name)
		tape->cap = tape->kept;
}

// A consumer may be slow without being stuck.
static bool reader_is_stuck(struct tape_reader *reader, int64_t now)
{
	uint64_t taken = reader->taken ? reader->taken(reader->arg) : 0;

	if (taken != reader->taken_before)
		reader->moved_ms = now;
	reader->taken_before = taken;
	return !reader->waiting && now - reader->moved_ms >= timer_ms(TIMER_READER);
}

void tape_detach_slow(struct tape *tape)
{
	list_each (at, &tape->readers) {
		struct tape_reader *reader = link_of(at, struct tape_reader, link);
		char box[64], offset[24];

		if (!reader_is_stuck(reader, loop_now(tape->loop)))
			continue;
		snprintf(box, sizeof(box), STR_FMT, STR_ARG(tape_box(tape)));
		snprintf(offset, sizeof(offset), "%llu", (unsigned long long)reader->offset);
		log_event(LOG_WARN, "output.reader_detached", "sandbox", box, "tape",
			  tape->name ? tape->name : "", "offset", offset, NULL);
		event_publish(EVENT_READER_CUT, "sandbox", box, "tape",
			      tape->name ? tape->name : "", "offset", offset, NULL);
		reader->detached = reader->cut = true;
		reader->missed += tape->chunks_end - reader->passed;
		tape_reader_leave(reader);
	}
}

static uint64_t chunks_room(const struct tape *tape)
{
	uint64_t max = all_chunks < CHUNKS_ALL ? CHUNKS_MAX : CHUNKS_LEAST;

	return tape->chunk_bytes < max ? max - tape->chunk_bytes : 0;
}

bool tape_pass_fits(const struct tape *tape, size_t len)
{
	return link_empty(&tape->readers) || chunks_room(tape) >= len;
}

void tape_pass(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len)
{
	struct tape_chunk *chunk;

	while (!tape_pass_fits(tape, len) && tape->chunk_bytes && !tape->hurried) {
		auto_err err = condition_wait(&tape->drained, loop_now(tape->loop) + TAPE_LOOK_MS);

		if (err && err_kind(err) != ERR_TIMEOUT)
			return; // cancelled: wait for no reader
		tape_detach_slow(tape);
	}
	if (!len || link_empty(&tape->readers))
		return;
	chunk = mem_grow(NULL, 1, sizeof(*chunk) + len);
	*chunk = (struct tape_chunk){
		.at = tape->end.offset, .begin = tape->chunks_end, .stream = stream, .len = len};
	memcpy(chunk->bytes, bytes, len);
	link_init(&chunk->link);
	link_add(&tape->chunks, &chunk->link);
	tape->chunks_end += len;
	tape->chunk_bytes += len;
	all_chunks += len;
	condition_signal(&tape->more);
}

struct tape_chunk *tape_chunk_next(const struct tape_reader *reader)
{
	list_each (at, &reader->tape->chunks) {
		struct tape_chunk *chunk = link_of(at, struct tape_chunk, link);

		if (chunk->begin + chunk->len > reader->passed)
			return chunk;
	}
	return NULL;
}

size_t tape_chunk_read(struct tape_reader *reader, const struct tape_chunk *chunk, void *room,
		       size_t size)
{
	size_t skip = (size_t)(reader->passed - chunk->begin), left = chunk->len - skip;

	if (left > size)
		left = size;
	memcpy(room, chunk->bytes + skip, left);
	reader->passed += left;
	return left;
}
