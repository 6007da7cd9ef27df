// Output of a named tape past its cap, for attached readers. Frames are spliced to the end of the
// log (tape_pipe.c) and the oldest are freed by punching a hole, so that the next daemon finds what
// was not yet read:
//
//	label | kept frames | FRAME_GAP | hole | frames of the window
//
// The last 24 bytes of FRAME_GAP say where the window begins (place, offset, bytes of stdout). They
// lie within one page and are rewritten before the hole is punched. Half of the window is for the
// slowest reader, which slows the writer; half lies behind it, for readers that reconnect. A reader
// that takes nothing, or is away, for TIMER_READER is no longer waited for.
//
// syscalls: openat pwritev pwrite64 fallocate close
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/tape_private.h"
#include "box/tape_sync.h"
#include "codec/pack.h"
#include "loop/offload.h"
#include "types/timers.h"

#define WINDOW_MAX (8ull << 20)
#define WINDOW_LEAST                                                                               \
	(1ull << 20) // of each, once all together are at their maximum or the quota is used up
#define STEP (128ull << 10) // between frames at which the window may begin
#define STEPS_MAX 128
#define PAGE 4096

static uint64_t window_max(const struct tape *tape)
{
	if (tape_windows_are_many() || (tape->budget && tape_budget_lacks_quota(tape->budget)))
		return WINDOW_LEAST;
	return WINDOW_MAX;
}

bool tape_window_takes(const struct tape *tape)
{
	return tape->name && tape->labelled && !tape->no_window && !tape->ended && !tape->broken &&
	       tape->kept >= tape->cap && !tape_is_stalled(tape) && tape_is_followed(tape);
}

uint64_t tape_window_place(const struct tape *tape, const struct tape_reader *reader)
{
	uint64_t start = tape->window ? tape->window->start.place : 0;

	if (!tape->window)
		return 0;
	if (reader->offset >= tape->end.offset)
		return tape->end.place;
	if (reader->at.place > start && reader->at.offset <= reader->offset)
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

static bool window_is_full(const struct tape *tape)
{
	uint64_t lag = tape->window ? tape->end.place - window_ref(tape) : 0;

	return lag + TAPE_FRAME_MAX > window_max(tape) / 2;
}

bool tape_window_await(struct tape *tape)
{
	while (tape_window_takes(tape) && !tape->hurried && window_is_full(tape)) {
		auto_err err = condition_wait(&tape->drained, loop_now(tape->loop) + TAPE_LOOK_MS);

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
	size_t written = 0;
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
	return spill_write(gap->file, &part, 1, at, &written);
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
	tape->end.place += TAPE_FRAME_HEAD + len;
	tape->end.offset += len;
	if (stream == TAPE_STDOUT)
		tape->end.stdout_bytes += len;
	tape_budget_count(tape, tape->end.place - tape->window->start.place);
}

struct mark tape_window_find(const struct tape *tape, uint64_t offset)
{
	const struct tape_window *window = tape->window;
	struct mark found = window->start;

	for (size_t i = 0; i < window->step_count && window->steps[i].offset <= offset; i++)
		found = window->steps[i];
	return found;
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
		auto_err err = task_sleep_until(loop_now(tape->loop) + TAPE_LOOK_MS);

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
