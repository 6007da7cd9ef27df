// A tape is a log (tape_private.h) with one writer and any number of readers. Of a plain tape the
// first 64 KiB are in memory and the rest is in an unnamed file; the last frame in memory may still
// grow. Of a named tape the whole log is in the file, and its first 64 KiB also in memory while it
// is followed. A frame is entirely in memory or not at all.
//
// Bytes that are being written to disk are not in the log until the write is done, so readers and
// writer may be on worker threads at the same time.
//
// syscalls: close unlinkat
#include "box/tape.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/tape_private.h"
#include "codec/pack.h"
#include "codec/text.h"
#include "loop/offload.h"

#define MEMORY_MAX 65536
#define MARK_EVERY 16384

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

	if (!tape->label || tape->labelled || tape->writing)
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
	if (!tape->name || !tape->closed || tape->refs > 1 || tape->writing)
		return;
	tape_remove_file(tape, NULL);
	free(take_ptr(tape->memory));
	tape->memory_len = tape->memory_room = 0;
	tape->sealed = true;
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
	if (tape->left || !tape->made)
		free(take_ptr(tape->name));
	tape_remove_file(tape, tape->name);
	tape_unbind(tape);
	tape_chunks_free(tape);
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

size_t tape_keeps(const struct tape *tape, size_t len)
{
	uint64_t left = tape->cap - tape->kept;

	if (tape->ended || tape->broken || tape_is_stalled(tape))
		return 0;
	return len < left ? len : (size_t)left;
}

bool tape_takes(const struct tape *tape)
{
	return tape_keeps(tape, 1) > 0;
}

bool tape_fits_memory(const struct tape *tape, size_t len)
{
	return !tape->sealed && tape->memory_len + tape_framed(len) <= MEMORY_MAX;
}

static void grow_memory(struct tape *tape, size_t need)
{
	size_t room = tape->memory_room ? tape->memory_room : 512;

	while (room < need)
		room *= 2;
	if (room == tape->memory_room)
		return;
	tape->memory = mem_grow(tape->memory, room, 1);
	tape->memory_room = room;
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
	tape->end.place += TAPE_FRAME_HEAD + len;
	tape->end.offset += len;
	if (stream == TAPE_STDOUT)
		tape->end.stdout_bytes += len;
}

void tape_remember(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len)
{
	uint64_t offset = tape->end.offset;

	grow_memory(tape, tape->memory_len + TAPE_FRAME_HEAD + len);
	frame_put((uint8_t *)tape->memory + tape->memory_len, (enum frame_kind)stream, len, offset);
	memcpy(tape->memory + tape->memory_len + TAPE_FRAME_HEAD, bytes, len);
	tape->last = tape->memory_len;
	tape->memory_len += TAPE_FRAME_HEAD + len;
}

bool tape_extend(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len)
{
	uint8_t *head = (uint8_t *)tape->memory + tape->last;
	struct frame frame;

	if (!tape->memory_len || !frame_get(head, &frame) ||
	    (enum tape_stream)frame.kind != stream || frame.len + len > TAPE_FRAME_MAX)
		return false;
	if (tape->hint.place > tape->last)
		tape->hint = (struct mark){0}; // no frame begins there any more
	grow_memory(tape, tape->memory_len + len);
	head = (uint8_t *)tape->memory + tape->last;
	frame_put(head, frame.kind, frame.len + len, tape->end.offset - frame.len);
	memcpy(tape->memory + tape->memory_len, bytes, len);
	tape->memory_len += len;
	tape->end.place += len;
	tape->end.offset += len;
	if (stream == TAPE_STDOUT)
		tape->end.stdout_bytes += len;
	return true;
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
	return tape->name && !tape->labelled && !tape->broken && !tape->stalled;
}

bool tape_is_labelled(const struct tape *tape)
{
	return tape->labelled;
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
	return tape->ended;
}

bool tape_ending_of(const struct tape *tape, struct tape_ending *out)
{
	if (!tape->closed)
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
