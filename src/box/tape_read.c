// Reads a tape by offset, and opens the tape of a previous daemon. The frame of an offset is found
// from a mark: one for every 16 KiB of the log, and one where the last reader stopped. Adjacent
// frames of one stream are read as one run.
//
// syscalls: close
#include <errno.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/tape_private.h"
#include "codec/pack.h"
#include "loop/offload.h"

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
		if (tape->ended) {
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
	return tape->ended || offset < tape_kept(tape);
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

static void tape_read_found(void *arg, enum tape_stream stream, const char *bytes, size_t len)
{
	struct tape *tape = arg;

	if (!bytes) {
		if (tape->window)
			tape_window_log(tape, stream, len);
		else
			tape_log(tape, stream, len);
		return;
	}
	tape->seen[stream] += len;
	if (tape->window)
		return;
	tape->kept += len;
	tape_check_utf8(&tape->utf8[stream], bytes, len);
}

static void found_gap(void *arg, size_t len, const struct mark *start)
{
	struct tape *tape = arg;
	struct mark gap = tape->end;

	tape_window_found(tape, &gap, len, start);
}

static bool read_ending(struct tape *tape, const struct scan *scan)
{
	struct unpack in;

	unpack_init(&in, scan->ending, scan->ending_len);
	tape->ending = (struct tape_ending){
		.ended_ms = (int64_t)unpack_u64(&in),
		.exit_code = (int32_t)unpack_u32(&in),
		.signal = (int32_t)unpack_u32(&in),
		.ending = unpack_u32(&in),
	};
	for (int i = 0; i < TAPE_STREAMS; i++) {
		tape->truncated[i] = unpack_u8(&in);
		tape->seen[i] = unpack_u64(&in);
	}
	if (in.left) {
		tape->ending.duration_ms = (int64_t)unpack_u64(&in);
		tape->ending.cpu_ms = unpack_u64(&in);
		tape->ending.max_rss = unpack_u64(&in);
		tape->ending.status = unpack_u8(&in);
	}
	if (in.left)
		tape->ending.pid = unpack_u32(&in);
	return unpack_end(&in);
}

// Computes from the end record the bytes that are neither kept nor in the window.
static void settle_dropped(struct tape *tape)
{
	uint64_t out = tape->end.stdout_bytes, err = tape->end.offset - out;

	if (!tape->ended)
		return;
	if (tape->seen[TAPE_STDOUT] > out)
		tape->dropped[TAPE_STDOUT] = tape->seen[TAPE_STDOUT] - out;
	if (tape->seen[TAPE_STDERR] > err)
		tape->dropped[TAPE_STDERR] = tape->seen[TAPE_STDERR] - err;
	if (tape->window)
		tape_await_reader(tape);
	tape_window_linger(tape);
}

fallible tape_open(struct loop *loop, int dir, const char *name, struct tape **out,
		   struct tape_label *out_label)
{
	auto_tape tape = tape_new(loop, dir, 0);
	struct tape_label label;
	struct scan scan = {.dir = dir,
			    .name = name,
			    .file = -1,
			    .each = tape_read_found,
			    .gap = found_gap,
			    .arg = tape};

	tape->left = true; // until it is known to be a tape
	tape->sealed = true;
	offload_run(scan_run, &scan);
	tape->file = scan.file;
	tape->label = scan.label;
	tape->label_len = scan.label_len;
	if (scan.errnum == ENOENT)
		return err_new(NOT_FOUND, "no_tape", "there is no such tape");
	if (scan.errnum)
		return err_sys(scan.errnum, "open a tape");
	if (scan.bad || !label_decode(tape->label, tape->label_len, &label) ||
	    (scan.ended && !read_ending(tape, &scan)))
		return err_new(INVALID, "bad_tape", "this is not a tape");
	tape->left = false;
	tape->name = mem_str(name);
	tape->made = tape->labelled = true;
	if (tape->window && tape->kept > label.cap)
		tape->kept = label.cap; // without a partial character
	tape->cap = label.cap > tape->kept ? label.cap : tape->kept;
	if (!scan.ended) {
		uint8_t flags = (uint8_t)tape->label[LABEL_FLAGS_AT];

		tape->truncated[TAPE_STDOUT] = flags & LABEL_CUT_OUT;
		tape->truncated[TAPE_STDERR] = flags & LABEL_CUT_ERR;
		tape->cut = flags & (LABEL_CUT_OUT | LABEL_CUT_ERR);
	}
	tape->ended = tape->closed = scan.ended;
	settle_dropped(tape);
	*out_label = label;
	*out = take_ptr(tape);
	return OK;
}
