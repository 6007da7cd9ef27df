// Readers that are attached to a tape. They get the log, kept or not, and output for which the disk
// had no room. The slowest reader slows the writer, as a pipe would; a reader that takes nothing,
// or is away, for TIMER_READER is no longer waited for. `missed` and `cut` of a reader tell what it
// did not get.
//
// Output of a named tape past its cap goes to a window on disk. Frames are spliced to the end of
// the log (tape_write.c) and the oldest are freed by punching a hole, so that the next daemon finds
// what was not yet read:
//
//	label | kept frames | FRAME_GAP | hole | frames of the window
//
// syscalls: openat pwritev pwrite64 fallocate close
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/tape_private.h"
#include "box/tape_sync.h"
#include "codec/pack.h"
#include "loop/offload.h"
#include "types/event.h"
#include "types/timers.h"

#define CHUNKS_MAX (8ull << 20)	    // of a tape
#define CHUNKS_LEAST (256ull << 10) // of each tape, once all together have CHUNKS_ALL
#define CHUNKS_ALL (64ull << 20)
#define STALL_MS 200 // until a tape without room tries again

#define LOOK_MS 1000 // between checks of readers that are waited for
#define WINDOW_MAX (8ull << 20)
#define WINDOW_LEAST (1ull << 20) // of each, once all are at their maximum or the quota is used up
#define STEP (128ull << 10)	  // between frames at which the window may begin
#define STEPS_MAX 128
#define PAGE 4096

// Output for which the disk has no room waits in memory chunks for attached readers. A chunk
// follows the log byte at its offset. Bytes in chunks have no offset of their own: a reader counts
// them separately, in order of arrival.
struct tape_chunk {
	struct link link;
	uint64_t at;	// offset of the log at its arrival
	uint64_t begin; // chunk bytes before it
	enum tape_stream stream;
	size_t len;
	char bytes[];
};

static uint64_t all_chunks; // bytes of all tapes

// Frees chunks that every reader has read: all of them, if there is no reader.
static void tape_chunks_trim(struct tape *tape)
{
	uint64_t least = tape->chunks_end;

	list_each (at, &tape->readers) {
		const struct tape_reader *reader = link_of(at, struct tape_reader, link);

		least = reader->passed < least ? reader->passed : least;
	}
	list_each (at, &tape->chunks) {
		struct tape_chunk *chunk = link_of(at, struct tape_chunk, link);

		if (chunk->begin + chunk->len > least)
			continue;
		link_drop(&chunk->link);
		tape->chunk_bytes -= chunk->len;
		all_chunks -= chunk->len;
		free(chunk);
	}
	condition_signal(&tape->drained);
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

static void tape_reader_leave(struct tape_reader *reader)
{
	struct tape *tape = reader->tape;

	link_drop(&reader->link);
	reader->tape = NULL;
	tape_chunks_trim(tape);
}

void tape_hurry(struct tape *tape)
{
	tape_reach(tape, TAPE_HURRIED);
	condition_signal(&tape->drained);
}

// The folder of a named tape.
static const char *tape_box(const struct tape *tape, char room[64])
{
	const char *slash = tape->name ? strchr(tape->name, '/') : NULL;

	snprintf(room, 64, "%.*s", slash ? (int)(slash - tape->name) : 0, slash ? tape->name : "");
	return room;
}

// A plain tape has no holes: it ends here.
void tape_stall(struct tape *tape, const char *reason)
{
	const char *name = tape->name ? tape->name : "";
	char box[64];

	if (tape->keeping == TAPE_KEEPS) {
		tape_box(tape, box);
		log_event(LOG_WARN, "output.not_kept", "sandbox", box, "tape", name, "reason",
			  reason, NULL);
		event_publish(EVENT_OUTPUT_CUT, "sandbox", box, "tape", name, "reason", reason,
			      NULL);
	}
	tape_set_keeping(tape, TAPE_STALLED);
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

static void tape_detach_slow(struct tape *tape)
{
	list_each (at, &tape->readers) {
		struct tape_reader *reader = link_of(at, struct tape_reader, link);
		char box[64], offset[24];

		if (!reader_is_stuck(reader, loop_now(tape->loop)))
			continue;
		tape_box(tape, box);
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

	while (!tape_pass_fits(tape, len) && tape->chunk_bytes && tape->phase < TAPE_HURRIED) {
		auto_err err = condition_wait(&tape->drained, loop_now(tape->loop) + LOOK_MS);

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

// ------------------------------------------------------------------------------------ the window
//
// The last 24 bytes of FRAME_GAP say where the window begins (place, offset, bytes of stdout). They
// lie within one page and are rewritten before the hole is punched.

static uint64_t window_max(const struct tape *tape)
{
	if (tape_windows_are_many() || (tape->budget && tape_budget_lacks_quota(tape->budget)))
		return WINDOW_LEAST;
	return WINDOW_MAX;
}

bool tape_window_takes(const struct tape *tape)
{
	return tape->name && tape->storage == TAPE_LABELLED && !tape->no_window &&
	       tape->phase < TAPE_ENDED && tape->keeping != TAPE_BROKEN &&
	       tape->kept >= tape->cap && !tape_is_stalled(tape) && tape_is_followed(tape);
}

static struct mark tape_window_find(const struct tape *tape, uint64_t offset)
{
	const struct tape_window *window = tape->window;
	struct mark found = window->start;

	for (size_t i = 0; i < window->step_count && window->steps[i].offset <= offset; i++)
		found = window->steps[i];
	return found;
}

// Place of a reader: a frame, or the end; 0: no window.
static uint64_t tape_window_place(const struct tape *tape, const struct tape_reader *reader)
{
	if (!tape->window)
		return 0;
	if (reader->offset >= tape->end.offset)
		return tape->end.place;
	if (reader->at.place > tape->window->start.place && reader->at.offset <= reader->offset)
		return reader->at.place;
	return tape_window_find(tape, reader->offset).place;
}

// The place of the slowest reader, from which frames must stay.
static uint64_t window_ref(const struct tape *tape)
{
	uint64_t start = tape->window->start.place, least = tape->end.place;

	list_each (at, &tape->readers) {
		uint64_t place = tape_window_place(tape, link_of(at, struct tape_reader, link));

		least = place < least ? place : least;
	}
	if (loop_now(tape->loop) < tape->absent.until && tape->absent.place < least)
		least = tape->absent.place > start ? tape->absent.place : start;
	return least;
}

// Half of the window is for the slowest reader, half lies behind it, for readers that reconnect.
static bool window_is_full(const struct tape *tape)
{
	uint64_t lag = tape->window ? tape->end.place - window_ref(tape) : 0;

	return lag + TAPE_FRAME_MAX > window_max(tape) / 2;
}

bool tape_window_await(struct tape *tape)
{
	while (tape_window_takes(tape) && tape->phase < TAPE_HURRIED && window_is_full(tape)) {
		auto_err err = condition_wait(&tape->drained, loop_now(tape->loop) + LOOK_MS);

		if (err && err_kind(err) != ERR_TIMEOUT)
			return false; // cancelled: wait for no reader
		tape_detach_slow(tape);
	}
	return tape_window_takes(tape);
}

struct gap {
	int dir, file;
	const char *name;
	uint64_t at; // position of the record
	size_t len;  // of its payload
	bool made;   // the record exists
	uint32_t offset;
	struct mark start;
	uint64_t from, to; // the hole
	bool holeless;
	int errnum;
};

static bool gap_write(const struct gap *gap)
{
	uint8_t record[TAPE_FRAME_HEAD + 2 * GAP_PAYLOAD] = {0};
	struct iovec part = {record, TAPE_FRAME_HEAD + gap->len};
	uint64_t at = gap->at;
	struct pack pack;

	frame_put(record, FRAME_GAP, gap->len, gap->offset);
	pack_init(&pack, record + TAPE_FRAME_HEAD + gap->len - GAP_PAYLOAD, GAP_PAYLOAD);
	pack_u64(&pack, gap->start.place);
	pack_u64(&pack, gap->start.offset);
	pack_u64(&pack, gap->start.stdout_bytes);
	if (gap->made) {
		size_t skip = TAPE_FRAME_HEAD + gap->len - GAP_PAYLOAD;

		part = (struct iovec){record + skip, GAP_PAYLOAD};
		at += skip;
	}
	errno = 0;
	return spill_write(gap->file, &part, 1, at);
}

static void gap_run(void *arg)
{
	struct gap *gap = arg;

	if (gap->file < 0)
		gap->file = spill_open(gap->dir, gap->name, true);
	if (gap->file < 0 || !gap_write(gap)) {
		gap->errnum = errno ? errno : EIO;
		return;
	}
	tape_sync_touch();
	if (gap->to > gap->from)
		gap->holeless = fallocate(gap->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  (off_t)gap->from, (off_t)(gap->to - gap->from)) != 0;
}

// Writes the begin of the window, and frees what lies before it.
static int window_publish(struct tape *tape, bool made)
{
	struct tape_window *window = tape->window;
	struct gap gap = {
		.dir = tape->dir,
		.file = tape->file,
		.name = tape->name,
		.at = tape->label_len + window->gap.place,
		.len = window->gap_len,
		.made = made,
		.offset = (uint32_t)window->gap.offset,
		.start = window->start,
		.from = tape->label_len + window->punched,
		.to = tape->label_len + window->start.place,
	};

	offload_run(gap_run, &gap);
	tape->file = gap.file;
	tape_budget_count(tape, tape->end.place - tape->window->start.place);
	if (gap.errnum)
		return gap.errnum;
	tape->no_window = tape->no_window || gap.holeless;
	window->punched = window->start.place;
	return 0;
}

static struct tape_window *window_new(const struct mark *gap, size_t gap_len)
{
	struct tape_window *window = mem_new_of(struct tape_window);

	*window = (struct tape_window){.gap = *gap, .gap_len = gap_len};
	window->steps = mem_grow(NULL, STEPS_MAX, sizeof(struct mark));
	window->punched = gap->place + TAPE_FRAME_HEAD + gap_len;
	return window;
}

// Empties the window: it begins at the end of the log.
static void window_restart(struct tape *tape)
{
	tape->end.offset += tape_all_dropped(tape);
	tape->end.stdout_bytes += tape->dropped[TAPE_STDOUT];
	tape->dropped[TAPE_STDOUT] = tape->dropped[TAPE_STDERR] = 0;
	tape->window->start = tape->end;
	tape->window->step_count = 0;
}

static int window_open(struct tape *tape)
{
	uint64_t at = tape->label_len + tape->end.place + TAPE_FRAME_HEAD;
	size_t left = PAGE - at % PAGE, len = GAP_PAYLOAD + (left < GAP_PAYLOAD ? left : 0);
	struct mark before = tape->end;
	int errnum;

	tape->window = window_new(&tape->end, len);
	tape->end.place += TAPE_FRAME_HEAD + len;
	window_restart(tape);
	errnum = window_publish(tape, false);
	if (errnum) {
		tape->dropped[TAPE_STDOUT] += tape->end.stdout_bytes - before.stdout_bytes;
		tape->dropped[TAPE_STDERR] += (tape->end.offset - tape->end.stdout_bytes) -
					      (before.offset - before.stdout_bytes);
		tape_window_free(tape);
		tape->end = before;
	}
	return errnum;
}

static bool window_trim(struct tape *tape)
{
	struct tape_window *window = tape->window;
	uint64_t hold = window_ref(tape), most = window_max(tape);
	size_t gone = 0;

	if (tape->end.place - window->start.place <= most)
		return false;
	most -= most / 8; // so that not every frame punches a hole
	while (gone + 1 < window->step_count && window->steps[gone + 1].place <= hold &&
	       tape->end.place - window->steps[gone].place > most)
		gone++;
	window->step_count -= gone;
	memmove(window->steps, window->steps + gone, window->step_count * sizeof(struct mark));
	if (gone)
		window->start = window->steps[0];
	return gone > 0;
}

int tape_window_make_room(struct tape *tape)
{
	if (!tape->window)
		return window_open(tape);
	if (tape_all_dropped(tape)) {
		window_restart(tape);
		return window_publish(tape, true);
	}
	return window_trim(tape) ? window_publish(tape, true) : 0;
}

void tape_window_log(struct tape *tape, enum tape_stream stream, size_t len)
{
	struct tape_window *window = tape->window;
	size_t count = window->step_count;

	if (!count ||
	    (count < STEPS_MAX && tape->end.place - window->steps[count - 1].place >= STEP))
		window->steps[window->step_count++] = tape->end;
	mark_step(&tape->end, stream, TAPE_FRAME_HEAD, len);
	tape_budget_count(tape, tape->end.place - tape->window->start.place);
}

void tape_window_found(struct tape *tape, const struct mark *gap, size_t gap_len,
		       const struct mark *start)
{
	uint64_t out = start->stdout_bytes - gap->stdout_bytes;

	tape->window = window_new(gap, gap_len);
	tape->window->start = tape->end = *start;
	tape->window->punched = start->place;
	tape->seen[TAPE_STDOUT] += out;
	tape->seen[TAPE_STDERR] += start->offset - gap->offset - out;
	// The kept part ends with a complete character: the window has the rest of the last one.
	for (int i = 0; i < TAPE_STREAMS; i++)
		tape->utf8[i].carried = 0;
}

static void linger_task(void *arg)
{
	struct tape *tape = arg;

	while (tape_is_followed(tape)) {
		auto_err err = task_sleep_until(loop_now(tape->loop) + LOOK_MS);

		if (err)
			break; // cancelled: the daemon ends
	}
	tape_disk_take(tape);
	if (!tape_is_followed(tape) && tape->window->start.place < tape->end.place) {
		tape->window->start = tape->end;
		tape->window->step_count = 0;
		(void)window_publish(tape, true); // on failure it stays as long as the tape
	}
	tape_disk_give(tape);
	tape->lingers = false;
	tape_unref(tape);
}

void tape_window_linger(struct tape *tape)
{
	if (!tape->window || tape->lingers || tape->window->start.place == tape->end.place)
		return;
	tape->lingers = true;
	tape_ref(tape);
	task_start(tape->loop, "tape.window", linger_task, tape);
}

// ---------------------------------------------------------------------------------- the readers

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

	return !tape || tape->phase >= TAPE_ENDED || reader->passed < tape->chunks_end ||
	       reader->offset != tape->end.offset;
}

bool tape_reader_is_done(const struct tape_reader *reader)
{
	const struct tape *tape = reader->tape;

	if (!tape)
		return !reader->detached;
	return tape->phase >= TAPE_ENDED && reader->offset >= tape_reached(tape) &&
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

static struct tape_chunk *tape_chunk_next(const struct tape_reader *reader)
{
	list_each (at, &reader->tape->chunks) {
		struct tape_chunk *chunk = link_of(at, struct tape_chunk, link);

		if (chunk->begin + chunk->len > reader->passed)
			return chunk;
	}
	return NULL;
}

static size_t tape_chunk_read(struct tape_reader *reader, const struct tape_chunk *chunk,
			      void *room, size_t size)
{
	size_t skip = (size_t)(reader->passed - chunk->begin), left = chunk->len - skip;

	if (left > size)
		left = size;
	memcpy(room, chunk->bytes + skip, left);
	reader->passed += left;
	tape_chunks_trim(reader->tape);
	return left;
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
		if (tape->phase >= TAPE_ENDED && reader->offset < tape_reached(tape))
			reader_skip(reader, tape_reached(tape));
		if (tape->phase >= TAPE_ENDED || reader->offset > tape->end.offset)
			return tape_read(tape, &reader->offset, out_stream, room, size, out_len, 0);
		reader->waiting = true;
		err = condition_wait(&tape->more, deadline);
		reader->waiting = false;
		TRY(err, "wait for output");
	}
}
