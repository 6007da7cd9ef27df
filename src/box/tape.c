// A tape is a log (tape_private.h) with one writer and any number of readers. Of a plain tape the
// first 64 KiB are in memory and the rest is in an unnamed file; the last frame in memory may still
// grow. Of a named tape the whole log is in the file, and its first 64 KiB also in memory while it
// is followed. A frame is entirely in memory or not at all.
//
// Bytes that are being written to disk are not in the log until the write is done, so readers and
// writer may be on worker threads at the same time. The frame of an offset is found from a mark:
// one for every 16 KiB of the log, and one where the last reader stopped. Adjacent frames of one
// stream are read as one run.
//
// syscalls: close unlinkat
#include "box/tape.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/tape_private.h"
#include "codec/pack.h"
#include "codec/text.h"
#include "loop/offload.h"

#define MARK_EVERY 16384
#define TIME_STEP_MS 100
#define TIMES_MAX 1024

struct tape *tape_new(struct loop *loop, int dir, uint64_t cap)
{
	struct tape *tape = mem_new_of(struct tape);

	tape->loop = loop;
	tape->dir = dir;
	tape->refs = 1;
	tape->cap = cap;
	tape->file = -1;
	condition_init(&tape->more);
	condition_init(&tape->wrote);
	condition_init(&tape->drained);
	link_init(&tape->readers);
	link_init(&tape->chunks);
	return tape;
}

struct tape *tape_new_named(struct loop *loop, int dir, const char *name)
{
	struct tape *tape = tape_new(loop, dir, 0);

	tape->name = mem_str(name);
	return tape;
}

void tape_set_label(struct tape *tape, const struct tape_label *label)
{
	tape->cap = label->cap;
	tape->label = label_encode(label, &tape->label_len);
}

void tape_started(struct tape *tape, int pid, uint32_t conn)
{
	struct pack pack;

	if (!tape->label || tape->storage == TAPE_LABELLED || tape->writing)
		return;
	pack_init(&pack, tape->label + LABEL_PID_AT, 8);
	pack_u32(&pack, (uint32_t)pid);
	pack_u32(&pack, conn);
}

void tape_ref(struct tape *tape)
{
	tape->refs++;
}

struct tape_removal {
	struct link link;
	int dir, file;
	char *name; // file to remove; NULL: none
};

// Files to close and remove, in batches by one task, so that each of many short commands costs
// little.
static struct {
	struct link queue;
	bool busy;
	uint64_t asked, done;
	struct condition condition;
} removals;

static void tape_removal_run(void *arg)
{
	list_each (at, (struct link *)arg) {
		struct tape_removal *removal = link_of(at, struct tape_removal, link);

		if (removal->name)
			unlinkat(removal->dir, removal->name, 0);
		if (removal->file >= 0)
			close(removal->file);
	}
}

static void tape_removal_task(void *arg)
{
	(void)arg;
	while (!link_empty(&removals.queue)) {
		struct link batch = LINK_INIT(batch);

		while (!link_empty(&removals.queue)) {
			struct link *first = removals.queue.next;

			link_drop(first);
			link_add(&batch, first);
		}
		offload_run(tape_removal_run, &batch);
		list_each (at, &batch) {
			struct tape_removal *removal = link_of(at, struct tape_removal, link);

			free(removal->name);
			free(removal);
			removals.done++;
		}
		condition_signal(&removals.condition);
	}
	removals.busy = false;
}

void tape_await_removals(void)
{
	uint64_t asked = removals.asked;

	while (removals.busy && removals.done < asked) {
		auto_err err = condition_wait(&removals.condition, CLOCK_NEVER);

		if (err)
			return; // cancelled
	}
}

// The last close of a file frees its blocks, which takes time: not on the loop.
static void tape_remove_file(struct tape *tape, char *name)
{
	struct tape_removal *removal;

	if (tape->file < 0 && !name)
		return;
	removal = mem_new_of(struct tape_removal);
	removal->dir = tape->dir;
	removal->file = take_fd(&tape->file);
	removal->name = name;
	if (!removals.busy) {
		link_init(&removals.queue);
		condition_init(&removals.condition);
		task_start(tape->loop, "tape.close", tape_removal_task, NULL);
	}
	removals.busy = true;
	removals.asked++;
	link_add(&removals.queue, &removal->link);
}

void tape_close_idle(struct tape *tape)
{
	if (!tape->name || tape->phase != TAPE_CLOSED || tape->refs > 1 || tape->writing)
		return;
	tape_remove_file(tape, NULL);
	free(take_ptr(tape->memory));
	tape->memory_len = tape->memory_room = 0;
	tape->memory_full = true;
}

void tape_window_free(struct tape *tape)
{
	struct tape_window *window = tape->window;

	if (!window)
		return;
	tape_budget_count(tape, 0);
	tape->window = NULL;
	free(window->steps);
	free(window);
}

void tape_unref(struct tape *tape)
{
	if (!tape)
		return;
	if (--tape->refs > 0) {
		tape_close_idle(tape);
		return;
	}
	if (tape->left || tape->storage == TAPE_UNMADE)
		free(take_ptr(tape->name));
	tape_remove_file(tape, tape->name);
	tape_unbind(tape);
	tape_window_free(tape);
	free(tape->label);
	free(tape->memory);
	free(tape->marks);
	free(tape->times);
	free(tape);
}

void tape_leave(struct tape *tape)
{
	tape->left = true;
}

void tape_check_utf8(struct tape_utf8 *utf8, const char *bytes, size_t len)
{
	struct str rest_of, whole;

	while (!utf8->broken && utf8->carried > 0 && len > 0) {
		struct str carry = {utf8->carry, utf8->carried + 1};

		utf8->carry[utf8->carried++] = *bytes++;
		len--;
		if (text_utf8_whole(carry) == carry.len) {
			utf8->broken = !text_is_utf8(carry);
			utf8->carried = 0;
		} else if (carry.len == sizeof(utf8->carry)) {
			utf8->broken = true;
		}
	}
	if (utf8->broken || len == 0)
		return;
	rest_of = (struct str){bytes, len};
	whole = (struct str){bytes, text_utf8_whole(rest_of)};
	if (!text_is_utf8(whole)) {
		utf8->broken = true;
		return;
	}
	utf8->carried = rest_of.len - whole.len;
	memcpy(utf8->carry, bytes + whole.len, utf8->carried);
}

bool tape_is_stalled(const struct tape *tape)
{
	return tape->keeping == TAPE_STALLED && loop_now(tape->loop) < tape->retry_at;
}

bool tape_lacks_room(const struct tape *tape)
{
	return tape->keeping == TAPE_STALLED;
}

size_t tape_keeps(const struct tape *tape, size_t len)
{
	uint64_t left = tape->cap - tape->kept;

	if (tape->phase >= TAPE_ENDED || tape->keeping == TAPE_BROKEN || tape_is_stalled(tape))
		return 0;
	return len < left ? len : (size_t)left;
}

bool tape_takes(const struct tape *tape)
{
	return tape_keeps(tape, 1) > 0;
}

// Arrival times: a pair is added when TIME_STEP_MS or more have passed since the last one. Past
// TIMES_MAX every second pair of the older half is dropped. Output that came under a previous
// daemon has no times.
static void times_thin(struct tape *tape)
{
	size_t half = tape->time_count / 2, kept = 0;

	for (size_t i = 0; i < tape->time_count; i++)
		if (i >= half || i % 2 == 0)
			tape->times[kept++] = tape->times[i];
	tape->time_count = kept;
}

static void tape_note_time(struct tape *tape)
{
	int64_t now = clock_wall_ms();

	if (tape->time_count && now - tape->times[tape->time_count - 1].ms < TIME_STEP_MS &&
	    now >= tape->times[tape->time_count - 1].ms)
		return;
	if (tape->time_count == TIMES_MAX)
		times_thin(tape);
	tape->times = mem_grow(tape->times, tape->time_count + 1, sizeof(*tape->times));
	tape->times[tape->time_count++] = (struct tape_time){tape->end.offset, now};
}

void tape_log(struct tape *tape, enum tape_stream stream, size_t len)
{
	const struct mark *last = tape->mark_count ? &tape->marks[tape->mark_count - 1] : NULL;

	if (tape->name) // plain tapes, and tapes that are being opened, have no times
		tape_note_time(tape);
	if (tape->end.place - (last ? last->place : 0) >= MARK_EVERY) {
		tape->marks = mem_grow(tape->marks, tape->mark_count + 1, sizeof(struct mark));
		tape->marks[tape->mark_count++] = tape->end;
	}
	mark_step(&tape->end, stream, TAPE_FRAME_HEAD, len);
}

void tape_disk_take(struct tape *tape)
{
	while (tape->writing)
		condition_await(&tape->wrote);
	tape->writing = true;
}

void tape_disk_give(struct tape *tape)
{
	tape->writing = false;
	condition_signal(&tape->wrote);
}

bool tape_is_unlabelled(const struct tape *tape)
{
	return tape->name && tape->storage < TAPE_LABELLED && tape->keeping == TAPE_KEEPS;
}

bool tape_is_labelled(const struct tape *tape)
{
	return tape->storage == TAPE_LABELLED;
}

void tape_await_idle(struct tape *tape)
{
	tape_ref(tape);
	while (tape->writing)
		condition_await(&tape->wrote);
	tape_unref(tape);
}

fallible tape_await_write(struct tape *tape, int64_t deadline)
{
	return condition_wait(&tape->wrote, deadline);
}

bool tape_has_ended(const struct tape *tape)
{
	return tape->phase >= TAPE_ENDED;
}

bool tape_ending_of(const struct tape *tape, struct tape_ending *out)
{
	if (tape->phase != TAPE_CLOSED)
		return false;
	*out = tape->ending;
	return true;
}

bool tape_truncated(const struct tape *tape, enum tape_stream stream)
{
	return tape->truncated[stream];
}

uint64_t tape_bytes(const struct tape *tape, enum tape_stream stream)
{
	return tape->seen[stream];
}

uint64_t tape_kept(const struct tape *tape)
{
	return tape->kept < tape->end.offset ? tape->kept : tape->end.offset;
}

uint64_t tape_reached(const struct tape *tape)
{
	return tape->end.offset + tape_all_dropped(tape);
}

bool tape_is_text(const struct tape *tape)
{
	return !tape->utf8[TAPE_STDOUT].broken && !tape->utf8[TAPE_STDERR].broken;
}

bool tape_is_utf8(const struct tape *tape)
{
	for (int i = 0; i < TAPE_STREAMS; i++)
		if (tape->utf8[i].broken || tape->utf8[i].carried > 0)
			return false;
	return true;
}

const struct tape_time *tape_times(const struct tape *tape, size_t *out_count)
{
	*out_count = tape->time_count;
	return tape->times;
}

static struct mark mark_before(const struct tape *tape, uint64_t offset)
{
	size_t low = 0, high = tape->mark_count;
	struct mark found = {0};

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (tape->marks[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (low)
		found = tape->marks[low - 1];
	if (tape->hint.offset <= offset && tape->hint.offset > found.offset)
		found = tape->hint;
	return found;
}

// Reads from memory as far as it reaches, then from the file.
static void tape_read_look_up(struct tape *tape, struct fetch *fetch)
{
	bool was_shut = tape->file < 0;
	uint64_t end = fetch->end;

	if (fetch->at.place < tape->memory_len) {
		fetch->memory = tape->memory;
		fetch->end = tape->memory_len < end ? tape->memory_len : end;
		fetch_run(fetch);
		if (fetch->len || fetch->errnum || fetch->at.place >= end)
			return;
		fetch->memory = NULL;
	}
	fetch->dir = tape->dir;
	fetch->name = tape->name;
	fetch->file = tape->file;
	fetch->shift = tape->label_len - tape->file_from;
	fetch->end = end;
	tape->fetching++;
	offload_run(fetch_run, fetch);
	tape->fetching--;
	if (!was_shut || fetch->file < 0)
		return;
	if (tape->file < 0)
		tape->file = fetch->file;
	else
		close(fetch->file); // another reader opened it meanwhile
}

fallible tape_fetch(struct tape *tape, struct mark *at, uint64_t end, uint64_t offset,
		    enum tape_stream *out_stream, void *room, size_t size, size_t *out_len)
{
	struct fetch fetch = {.room = room, .size = size, .offset = offset, .end = end};

	fetch.at = at ? *at : mark_before(tape, offset);
	tape_read_look_up(tape, &fetch);
	if (!fetch.errnum && !fetch.len)
		fetch.errnum = EIO;
	if (fetch.errnum)
		return err_sys(fetch.errnum, "read a tape");
	*(at ? at : &tape->hint) = fetch.at;
	*out_stream = fetch.stream;
	*out_len = fetch.len;
	return OK;
}

fallible tape_read(struct tape *tape, uint64_t *offset, enum tape_stream *out_stream, void *room,
		   size_t size, size_t *out_len, int64_t deadline)
{
	while (*offset >= tape_kept(tape)) {
		if (*offset > tape_reached(tape))
			return err_hint(err_new(INVALID, "bad_offset",
						"the offset is past the end of the output"),
					"there are %llu bytes",
					(unsigned long long)tape_reached(tape));
		if (tape->phase >= TAPE_ENDED) {
			*out_len = 0;
			return OK;
		}
		TRY(condition_wait(&tape->more, deadline), "wait for output");
	}
	if (size > tape_kept(tape) - *offset)
		size = (size_t)(tape_kept(tape) - *offset);
	TRY(tape_fetch(tape, NULL, tape->window ? tape->window->gap.place : tape->end.place,
		       *offset, out_stream, room, size, out_len));
	*offset += *out_len;
	return OK;
}

bool tape_is_ready(const struct tape *tape, uint64_t offset)
{
	return tape->phase >= TAPE_ENDED || offset < tape_kept(tape);
}

uint64_t tape_seek(const struct tape *tape, enum tape_stream stream, uint64_t bytes,
		   uint64_t *out_before)
{
	uint64_t offset = 0, before = 0;

	for (size_t i = 0; i < tape->mark_count; i++) {
		const struct mark *mark = &tape->marks[i];
		uint64_t of_stream = stream == TAPE_STDOUT ? mark->stdout_bytes
							   : mark->offset - mark->stdout_bytes;

		if (of_stream > bytes)
			break;
		offset = mark->offset;
		before = of_stream;
	}
	*out_before = before;
	return offset;
}
