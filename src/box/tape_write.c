// Writes a tape: appends bytes to memory while they fit, then to the file; splices output of a pipe
// to the file; writes label and end record; opens the tape of a previous daemon to go on. Bytes
// past the cap, and bytes for which the disk has no room, go to attached readers only
// (tape_live.c), and the stream is marked truncated. A disk error other than ENOSPC stops the tape
// from keeping anything more.
//
// syscalls: splice pwritev pwrite64 pread64 ftruncate openat close
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/pipe.h"
#include "box/tape_private.h"
#include "box/tape_sync.h"
#include "codec/pack.h"
#include "codec/text.h"
#include "loop/offload.h"
#include "loop/pump.h"

#define MEMORY_MAX 65536 // of the log, at most

static bool tape_fits_memory(const struct tape *tape, size_t len)
{
	return !tape->memory_full && tape->memory_len + tape_framed(len) <= MEMORY_MAX;
}

static void tape_grow_memory(struct tape *tape, size_t need)
{
	size_t room = tape->memory_room ? tape->memory_room : 512;

	while (room < need)
		room *= 2;
	if (room == tape->memory_room)
		return;
	tape->memory = mem_grow(tape->memory, room, 1);
	tape->memory_room = room;
}

static void tape_remember(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len)
{
	uint64_t offset = tape->end.offset;

	tape_grow_memory(tape, tape->memory_len + TAPE_FRAME_HEAD + len);
	frame_put((uint8_t *)tape->memory + tape->memory_len, (enum frame_kind)stream, len, offset);
	memcpy(tape->memory + tape->memory_len + TAPE_FRAME_HEAD, bytes, len);
	tape->last = tape->memory_len;
	tape->memory_len += TAPE_FRAME_HEAD + len;
}

// Extends the last frame of a plain tape. False: other stream, or full.
static bool tape_extend(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len)
{
	uint8_t *head = (uint8_t *)tape->memory + tape->last;
	struct frame frame;

	if (!tape->memory_len || !frame_get(head, &frame) ||
	    (enum tape_stream)frame.kind != stream || frame.len + len > TAPE_FRAME_MAX)
		return false;
	if (tape->hint.place > tape->last)
		tape->hint = (struct mark){0}; // no frame begins there any more
	tape_grow_memory(tape, tape->memory_len + len);
	head = (uint8_t *)tape->memory + tape->last;
	frame_put(head, frame.kind, frame.len + len, tape->end.offset - frame.len);
	memcpy(tape->memory + tape->memory_len, bytes, len);
	tape->memory_len += len;
	mark_step(&tape->end, stream, 0, len);
	return true;
}

bool tape_fits(const struct tape *tape, size_t len)
{
	size_t keep = tape_keeps(tape, len);

	if (keep == 0)
		return !tape_window_takes(tape) && tape_pass_fits(tape, len);
	return !tape->name && tape_fits_memory(tape, keep);
}

// Disk error: nothing more is kept. No room: nothing for a moment.
static fallible tape_break(struct tape *tape, int errnum)
{
	if (errnum == ENOSPC || errnum == EDQUOT) {
		tape_stall(tape, "disk_full");
		return OK;
	}
	if (tape->keeping != TAPE_BROKEN)
		log_event(LOG_WARN, "tape.broken", "file", tape->name ? tape->name : "", "error",
			  strerror(errnum), NULL);
	tape_set_keeping(tape, TAPE_BROKEN);
	tape->truncated[TAPE_STDOUT] = tape->truncated[TAPE_STDERR] = true;
	return err_sys(errnum, "write a tape");
}

// Appends one frame, or with len 0 only the label, to the file.
static fallible tape_put(struct tape *tape, enum frame_kind kind, const char *bytes, size_t len)
{
	struct spill spill = {
		.dir = tape->dir,
		.name = tape->name,
		.made = tape->storage >= TAPE_MADE,
		.file = tape->file,
		.label = {tape->label, tape->storage == TAPE_LABELLED ? 0 : tape->label_len},
		.at = tape->end.place - tape->file_from,
		.kind = kind,
		.bytes = bytes,
		.len = len,
		.offset = tape->end.offset,
		// The end record, and no reader holds the tape.
		.shut = kind == FRAME_END && len && tape->refs <= 2 && !tape->fetching,
	};
	struct err *err;

	if (tape->storage == TAPE_LABELLED)
		spill.at += tape->label_len;
	if (spill.shut)
		tape->file = -1; // a reader opens it again
	offload_run(spill_run, &spill);
	if (spill.file >= 0)
		tape_store(tape, TAPE_MADE);
	if (!spill.shut)
		tape->file = spill.file;
	if (!spill.errnum) {
		if (spill.label.len)
			tape_store(tape, TAPE_LABELLED);
		if (len)
			tape_set_keeping(tape, TAPE_KEEPS);
		return OK;
	}
	err = tape_break(tape, spill.errnum);
	// A label or an end record is never skipped.
	return err || kind != FRAME_END ? err : err_sys(spill.errnum, "write a tape");
}

// A frame is in the file: readers see it. Those that follow a named tape are served from memory.
static void tape_log_written(struct tape *tape, enum tape_stream stream, const char *bytes,
			     size_t len)
{
	if (tape->name && tape_fits_memory(tape, len))
		tape_remember(tape, stream, bytes, len);
	else
		tape->memory_full = true;
	tape_log(tape, stream, len);
	condition_signal(&tape->more);
}

static fallible tape_add_file(struct tape *tape, enum tape_stream stream, const char *bytes,
			      size_t len)
{
	while (len > 0) {
		size_t part = len < TAPE_FRAME_MAX ? len : TAPE_FRAME_MAX;

		TRY(tape_put(tape, (enum frame_kind)stream, bytes, part));
		if (tape->keeping == TAPE_STALLED)
			return OK;
		tape_log_written(tape, stream, bytes, part);
		bytes += part;
		len -= part;
	}
	return OK;
}

// Bytes that are not kept for lack of room: marks the stream and passes them to attached readers.
// Later bytes may be kept again.
static void pass_unkept(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len)
{
	if (!len)
		return;
	tape->truncated[stream] = true;
	tape->unkept += len;
	tape_pass(tape, stream, bytes, len);
}

// Bytes past the cap: to attached readers, else dropped.
static void pass_over(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len)
{
	if (link_empty(&tape->readers))
		tape->dropped[stream] += len;
	else
		pass_unkept(tape, stream, bytes, len);
}

static fallible add_disk(struct tape *tape, enum tape_stream stream, const char *bytes, size_t keep)
{
	uint64_t before;
	struct err *err;
	size_t done;

	tape->memory_full = tape->memory_full || !tape->name;
	tape_pay(tape, keep);
	tape_disk_take(tape);
	before = tape->end.offset;
	err = tape_add_file(tape, stream, bytes, keep);
	done = (size_t)(tape->end.offset - before);
	tape_disk_give(tape);
	if (err || done == keep)
		return err;
	tape->kept -= keep - done;
	tape_unpay(tape, keep - done);
	if (!tape->name)
		tape->cap = tape->kept;
	pass_unkept(tape, stream, bytes + done, keep - done);
	return OK;
}

static fallible add_kept(struct tape *tape, enum tape_stream stream, const char *bytes, size_t keep,
			 bool in_memory)
{
	if (keep == 0)
		return OK;
	tape_check_utf8(&tape->utf8[stream], bytes, keep);
	tape->kept += keep;
	if (!in_memory)
		return add_disk(tape, stream, bytes, keep);
	if (!tape_extend(tape, stream, bytes, keep)) {
		tape_remember(tape, stream, bytes, keep);
		tape_log(tape, stream, keep);
	}
	tape->file_from = tape->end.place;
	condition_signal(&tape->more);
	return OK;
}

fallible tape_add(struct tape *tape, enum tape_stream stream, const void *bytes, size_t len)
{
	size_t keep = tape_keeps(tape, len);
	struct tape_utf8 *utf8 = &tape->utf8[stream];
	bool in_memory = !tape->name && tape_fits_memory(tape, keep);

	tape->seen[stream] += len;
	if (!in_memory && keep) {
		size_t afford = tape_afford(tape, keep);

		if (afford < keep && tape->name) {
			tape_stall(tape, "quota");
			keep = 0;
		} else {
			keep = afford;
		}
	}
	if (keep == 0 && tape->keeping == TAPE_STALLED) {
		pass_unkept(tape, stream, bytes, len);
		return OK;
	}
	if (keep < len) {
		tape->truncated[stream] = true;
		// The cut must not split a UTF-8 character.
		if (!utf8->broken)
			keep = text_utf8_whole((struct str){bytes, keep});
		tape->cap = tape->kept + keep; // nothing is kept after the cut
	}
	TRY(add_kept(tape, stream, bytes, keep, in_memory));
	if (keep < len)
		pass_over(tape, stream, (const char *)bytes + keep, len - keep);
	return OK;
}

void tape_begin(struct tape *tape)
{
	tape_disk_take(tape);
	if (tape->label && tape->storage < TAPE_LABELLED && tape->keeping != TAPE_BROKEN)
		err_free(tape_put(tape, FRAME_END, NULL, 0));
	tape_disk_give(tape);
}

bool tape_prepare(struct tape *tape)
{
	tape_disk_take(tape);
	if (tape->file < 0 && tape->storage == TAPE_UNMADE)
		err_free(tape_put(tape, FRAME_END, NULL, 0));
	tape_disk_give(tape);
	return tape->storage >= TAPE_MADE;
}

void tape_end(struct tape *tape)
{
	tape_reach(tape, TAPE_ENDED);
	condition_signal(&tape->more);
	condition_signal(&tape->wrote);
	tape_window_linger(tape);
}

fallible tape_seal(struct tape *tape, const struct tape_ending *ending)
{
	char room[ENDING_MAX];
	struct err *err = OK;
	struct pack pack;

	pack_init(&pack, room, sizeof(room));
	pack_u64(&pack, (uint64_t)ending->ended_ms);
	pack_u32(&pack, (uint32_t)ending->exit_code);
	pack_u32(&pack, (uint32_t)ending->signal);
	pack_u32(&pack, ending->ending);
	for (int i = 0; i < TAPE_STREAMS; i++) {
		pack_u8(&pack, tape->truncated[i]);
		pack_u64(&pack, tape->seen[i]);
	}
	pack_u64(&pack, (uint64_t)ending->duration_ms);
	pack_u64(&pack, ending->cpu_ms);
	pack_u64(&pack, ending->max_rss);
	pack_u8(&pack, ending->status);
	pack_u32(&pack, ending->pid);
	tape_disk_take(tape);
	if (tape->name && tape->phase != TAPE_CLOSED)
		err = tape_put(tape, FRAME_END, room, pack.len);
	tape_reach(tape, TAPE_ENDED);
	if (!err) {
		tape->ending = *ending;
		tape_reach(tape, TAPE_CLOSED);
	}
	tape_disk_give(tape);
	tape_close_idle(tape);
	return err;
}

// ----------------------------------------------------------------------------- output of a pipe
//
// A daemon killed at any moment has neither lost nor doubled a byte: splice() removes from the pipe
// exactly the bytes that it put into the file.
//
//	1. the frame header is written behind the log, with the expected length
//	2. splice() puts the bytes behind the header
//	3. if fewer came, the header is corrected; readers are told after that
//
// After a crash between 1 and 3 scan_run() (tape_file.c) takes as many bytes as there are. Output
// past the cap goes to the window (tape_live.c) while a reader follows; otherwise the caller drops
// it, so the label first records the cut. pid 1 has the reading end too: only bytes that arrive
// count.

struct draw {
	int dir, file, pipe;
	const struct stall_at *whose; // owner of the pipe
	const char *name;
	bool made;
	struct str label; // written first; may be empty
	uint64_t at;	  // position of the label or else the header
	enum frame_kind kind;
	uint64_t offset;
	size_t len;    // expected; then: moved
	size_t whole;  // without a partial character at the cap
	uint64_t head; // position of the header
	char *room;
	int errnum;
};

static bool tape_pipe_put_head(struct draw *draw, uint64_t at, size_t len, struct str label)
{
	uint8_t head[TAPE_FRAME_HEAD];
	struct iovec parts[2];
	int count = 0;

	frame_put(head, draw->kind, len, draw->offset);
	if (label.len)
		parts[count++] = (struct iovec){(void *)label.at, label.len};
	parts[count++] = (struct iovec){head, sizeof(head)};
	return spill_write(draw->file, parts, count, at);
}

static size_t tape_pipe_move(struct draw *draw, uint64_t at)
{
	size_t done = 0;

	while (done < draw->len) {
		loff_t to = (loff_t)(at + done);
		ssize_t n = splice(draw->pipe, NULL, draw->file, &to, draw->len - done,
				   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			draw->errnum = errno;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static void draw_run(void *arg)
{
	struct draw *draw = arg;
	uint64_t head = draw->head = draw->at + draw->label.len;
	size_t meant = draw->len;

	draw->len = 0;
	if (draw->file < 0)
		draw->file = spill_open(draw->dir, draw->name, draw->made);
	// Output of one box must not fill the disk that all boxes share.
	errno = draw->file < 0 ? errno : ENOSPC;
	if (draw->file < 0 || tape_disk_is_short(draw->dir, draw->file, meant) ||
	    !tape_pipe_put_head(draw, draw->at, meant, draw->label)) {
		draw->errnum = errno ? errno : EIO;
		return;
	}
	// A pipe lock held by a process of the box blocks this call first, where nothing else can
	// take long (STALL_LOCK).
	(void)pipe_held(draw->whose, draw->pipe);
	kill_point("daemon.tape_head", NULL);
	draw->len = meant;
	stall_enter(draw->whose, STALL_DISK);
	draw->len = tape_pipe_move(draw, head + TAPE_FRAME_HEAD);
	stall_leave();
	kill_point("daemon.tape_moved", NULL);
	// If the correction fails, the next open finds the same by the file's length.
	if (draw->len == 0
		    ? ftruncate(draw->file, (off_t)head) != 0
		    : draw->len < meant && !tape_pipe_put_head(draw, head, draw->len, STR("")))
		draw->errnum = errno;
	tape_sync_touch();
	// The bytes are still in the page cache. UTF-8 is checked on them, and readers that follow
	// are served from memory.
	if (draw->len && !spill_read(draw->file, draw->room, draw->len, head + TAPE_FRAME_HEAD))
		draw->errnum = EIO;
}

struct note {
	int dir, file;
	const char *name;
	char cap[8], flags;
	bool done;
};

static void note_run(void *arg)
{
	struct note *note = arg;

	if (note->file < 0)
		note->file = spill_open(note->dir, note->name, true);
	note->done = note->file >= 0 &&
		     pwrite(note->file, note->cap, sizeof(note->cap), LABEL_CAP_AT) == 8 &&
		     pwrite(note->file, &note->flags, 1, LABEL_FLAGS_AT) == 1;
	tape_sync_touch();
}

// Records the cut in the label: nothing more is kept after this; of a stalled tape, bytes will be
// missing.
static void note_cut(struct tape *tape, enum tape_stream stream)
{
	struct note note = {.dir = tape->dir, .file = tape->file, .name = tape->name};
	struct pack pack;

	tape->truncated[stream] = true;
	if (tape->keeping != TAPE_STALLED)
		tape->cap = tape->kept;
	if (!tape->label)
		return;
	note.flags = tape->label[LABEL_FLAGS_AT];
	note.flags |= tape->truncated[TAPE_STDOUT] ? LABEL_CUT_OUT : 0;
	note.flags |= tape->truncated[TAPE_STDERR] ? LABEL_CUT_ERR : 0;
	if (tape->storage < TAPE_LABELLED || note.flags == tape->label[LABEL_FLAGS_AT]) {
		tape->label[LABEL_FLAGS_AT] = note.flags;
		if (tape->storage < TAPE_LABELLED || tape->keeping == TAPE_STALLED)
			return;
	}
	pack_init(&pack, note.cap, sizeof(note.cap));
	pack_u64(&pack, tape->cap);
	offload_run(note_run, &note);
	tape->file = note.file;
	tape->cut = true; // on failure too: a broken disk must not stop the rest
	if (!note.done)
		return;
	memcpy(tape->label + LABEL_CAP_AT, note.cap, sizeof(note.cap));
	tape->label[LABEL_FLAGS_AT] = note.flags;
}

void tape_mark_cut(struct tape *tape)
{
	tape_disk_take(tape);
	note_cut(tape, TAPE_STDOUT);
	tape_disk_give(tape);
}

// Shortens the frame to its complete characters.
static void trim_run(void *arg)
{
	struct draw *draw = arg;
	uint64_t end = draw->head + (draw->whole ? TAPE_FRAME_HEAD + draw->whole : 0);

	if ((draw->whole && !tape_pipe_put_head(draw, draw->head, draw->whole, STR(""))) ||
	    ftruncate(draw->file, (off_t)end))
		draw->errnum = errno;
	draw->len = draw->whole;
}

// Readers that follow get the whole frame; the kept part ends inside it.
static void log_cut(struct tape *tape, enum tape_stream stream, const struct draw *draw)
{
	tape_check_utf8(&tape->utf8[stream], draw->room, draw->whole);
	tape->truncated[stream] = true;
	tape->kept += draw->whole;
	tape->cap = tape->kept;
	tape_pay(tape, draw->len);
	tape->memory_full = true;
	tape_log(tape, stream, draw->len);
	tape->seen[stream] += draw->len;
	condition_signal(&tape->more);
}

static fallible draw_frame(struct tape *tape, enum tape_stream stream, struct draw *draw)
{
	size_t came;

	draw->at = tape->storage == TAPE_LABELLED ? tape->end.place + tape->label_len : 0;
	offload_run(draw_run, draw);
	tape->file = draw->file;
	if (draw->file >= 0)
		tape_store(tape, !draw->errnum || draw->len ? TAPE_LABELLED : TAPE_MADE);
	came = draw->whole = draw->len;
	// The cut must not split a UTF-8 character.
	if (tape->kept + came == tape->cap && !tape->utf8[stream].broken)
		draw->whole = text_utf8_whole((struct str){draw->room, came});
	if (draw->whole < came && tape_is_followed(tape)) {
		log_cut(tape, stream, draw);
		return OK;
	}
	if (draw->whole < came) {
		offload_run(trim_run, draw);
		tape->cap = tape->kept + draw->whole;
		tape->dropped[stream] += came - draw->whole;
	}
	tape->seen[stream] += came;
	if (came && !draw->errnum)
		tape_set_keeping(tape, TAPE_KEEPS);
	if (draw->len) {
		tape_check_utf8(&tape->utf8[stream], draw->room, draw->len);
		tape->kept += draw->len;
		tape_pay(tape, draw->len);
		tape_log_written(tape, stream, draw->room, draw->len);
	}
	return draw->errnum ? tape_break(tape, draw->errnum) : OK;
}

bool tape_is_named(const struct tape *tape)
{
	return tape->name != NULL;
}

// Output past the cap, for readers that follow.
static fallible draw_window(struct tape *tape, enum tape_stream stream, struct draw *draw,
			    size_t max, size_t *out_len)
{
	struct err *err = OK;

	if (!tape_window_await(tape))
		return OK;
	tape_disk_take(tape);
	if (!tape->truncated[stream] || !tape->cut)
		note_cut(tape, stream);
	draw->errnum = tape_window_make_room(tape);
	if (!draw->errnum && !tape->no_window) {
		draw->len = max < TAPE_FRAME_MAX ? max : TAPE_FRAME_MAX;
		draw->file = tape->file;
		draw->made = true;
		draw->offset = tape->end.offset;
		draw->at = tape->end.place + tape->label_len;
		offload_run(draw_run, draw);
		tape->file = draw->file;
		*out_len = draw->len;
	}
	if (*out_len) {
		tape->seen[stream] += *out_len;
		if (!draw->errnum)
			tape_set_keeping(tape, TAPE_KEEPS);
		tape_window_log(tape, stream, *out_len);
		condition_signal(&tape->more);
	}
	if (draw->errnum)
		err = tape_break(tape, draw->errnum);
	tape_disk_give(tape);
	return err;
}

bool tape_draws(const struct tape *tape)
{
	return tape->name && (tape_takes(tape) || tape_window_takes(tape));
}

fallible tape_pipe(struct tape *tape, enum tape_stream stream, const struct stall_at *at, int pipe,
		   void *room, size_t max, size_t *out_len)
{
	size_t most = tape_keeps(tape, max < TAPE_FRAME_MAX ? max : TAPE_FRAME_MAX), keep = most;
	struct draw draw = {
		.dir = tape->dir,
		.pipe = pipe,
		.whose = at,
		.name = tape->name,
		.kind = (enum frame_kind)stream,
		.room = room,
	};
	struct err *err = OK;

	*out_len = 0;
	if (tape_window_takes(tape))
		return draw_window(tape, stream, &draw, max, out_len);
	if (keep)
		keep = tape_afford(tape, keep);
	if (most && !keep)
		tape_stall(tape, "quota");
	tape_disk_take(tape);
	draw.file = tape->file;
	draw.made = tape->storage >= TAPE_MADE;
	draw.offset = tape->end.offset;
	draw.len = keep;
	if (tape->storage < TAPE_LABELLED)
		draw.label = (struct str){tape->label, tape->label_len};
	if (keep) {
		uint64_t before = tape->seen[stream];

		err = draw_frame(tape, stream, &draw);
		*out_len = (size_t)(tape->seen[stream] - before);
	}
	if (!keep || err || tape->keeping == TAPE_STALLED || draw.len < *out_len)
		note_cut(tape, stream);
	tape_disk_give(tape);
	return err;
}

// ------------------------------------------------------------------ a tape of a previous daemon

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

	if (tape->phase < TAPE_ENDED)
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
	tape->memory_full = true;
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
	tape_store(tape, TAPE_LABELLED);
	if (tape->window && tape->kept > label.cap)
		tape->kept = label.cap; // without a partial character
	tape->cap = label.cap > tape->kept ? label.cap : tape->kept;
	if (!scan.ended) {
		uint8_t flags = (uint8_t)tape->label[LABEL_FLAGS_AT];

		tape->truncated[TAPE_STDOUT] = flags & LABEL_CUT_OUT;
		tape->truncated[TAPE_STDERR] = flags & LABEL_CUT_ERR;
		tape->cut = flags & (LABEL_CUT_OUT | LABEL_CUT_ERR);
	}
	if (scan.ended)
		tape_reach(tape, TAPE_CLOSED);
	settle_dropped(tape);
	*out_label = label;
	*out = take_ptr(tape);
	return OK;
}
