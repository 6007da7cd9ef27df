// Moves output from a pipe to a named tape so that a daemon killed at any moment has neither lost
// nor doubled a byte: splice() removes from the pipe exactly the bytes that it put into the file.
//
//	1. the frame header is written behind the log, with the expected length
//	2. splice() puts the bytes behind the header
//	3. if fewer came, the header is corrected; readers are told after that
//
// After a crash between 1 and 3 scan_run() (tape_file.c) takes as many bytes as there are. Output
// past the cap goes to the window (tape_window.c) while a reader follows; otherwise the caller
// drops it, so the label first records the cut. pid 1 has the reading end too: only bytes that
// arrive count.
//
// syscalls: splice pwritev pwrite64 pread64 ftruncate openat close
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "box/pipe.h"
#include "box/tape_private.h"
#include "box/tape_sync.h"
#include "codec/pack.h"
#include "codec/text.h"
#include "loop/offload.h"
#include "loop/pump.h"

struct draw {
	int dir, file, pipe;
	const struct stall_at *whose; // owner of the pipe
	const char *name;
	bool made;
	struct str label; // written first; may be empty
	uint64_t at;	  // position of the label or else the header
	enum frame_kind kind;
	uint64_t offset;
	size_t len; // expected; then: moved
	char *room;
	int errnum;
};

static bool tape_pipe_put_head(struct draw *draw, uint64_t at, size_t len, struct str label)
{
	uint8_t head[TAPE_FRAME_HEAD];
	struct iovec parts[2];
	size_t written = 0;
	int count = 0;

	frame_put(head, draw->kind, len, draw->offset);
	if (label.len)
		parts[count++] = (struct iovec){(void *)label.at, label.len};
	parts[count++] = (struct iovec){head, sizeof(head)};
	return spill_write(draw->file, parts, count, at, &written);
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

// The bytes are still in the page cache. UTF-8 is checked on them, and readers that follow are
// served from memory.
static bool read_back(struct draw *draw, uint64_t at)
{
	for (size_t done = 0; done < draw->len;) {
		ssize_t n = pread(draw->file, draw->room + done, draw->len - done,
				  (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static void draw_run(void *arg)
{
	struct draw *draw = arg;
	uint64_t head = draw->at + draw->label.len;
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
	if (draw->len && !read_back(draw, head + TAPE_FRAME_HEAD))
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
	if (!tape->stalled)
		tape->cap = tape->kept;
	if (!tape->label)
		return;
	note.flags = tape->label[LABEL_FLAGS_AT];
	note.flags |= tape->truncated[TAPE_STDOUT] ? LABEL_CUT_OUT : 0;
	note.flags |= tape->truncated[TAPE_STDERR] ? LABEL_CUT_ERR : 0;
	if (!tape->labelled || note.flags == tape->label[LABEL_FLAGS_AT]) {
		tape->label[LABEL_FLAGS_AT] = note.flags;
		if (!tape->labelled || tape->stalled)
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

// The cut must not split a UTF-8 character: returns the length without a partial one.
static size_t tape_pipe_trim(struct tape *tape, struct draw *draw)
{
	struct str drawn = {draw->room, draw->len};
	size_t whole = draw->len;

	if (tape->kept + draw->len == tape->cap && !tape->utf8[draw->kind].broken)
		whole = text_utf8_whole(drawn);
	return whole;
}

struct trimming {
	struct draw *draw;
	uint64_t head;
	size_t len;
};

static void trim_run(void *arg)
{
	struct trimming *trimming = arg;
	struct draw *draw = trimming->draw;
	uint64_t end = trimming->head + (trimming->len ? TAPE_FRAME_HEAD + trimming->len : 0);

	if ((trimming->len && !tape_pipe_put_head(draw, trimming->head, trimming->len, STR(""))) ||
	    ftruncate(draw->file, (off_t)end))
		draw->errnum = errno;
	draw->len = trimming->len;
}

static void log_drawn(struct tape *tape, enum tape_stream stream, const struct draw *draw)
{
	if (!draw->len)
		return;
	tape_check_utf8(&tape->utf8[stream], draw->room, draw->len);
	tape->kept += draw->len;
	tape_pay(tape, draw->len);
	if (tape_fits_memory(tape, draw->len))
		tape_remember(tape, stream, draw->room, draw->len);
	else
		tape->sealed = true;
	tape_log(tape, stream, draw->len);
	condition_signal(&tape->more);
}

// Readers that follow get the whole frame; the kept part ends inside it.
static void log_cut(struct tape *tape, enum tape_stream stream, const struct draw *draw,
		    size_t whole)
{
	tape_check_utf8(&tape->utf8[stream], draw->room, whole);
	tape->truncated[stream] = true;
	tape->kept += whole;
	tape->cap = tape->kept;
	tape_pay(tape, draw->len);
	tape->sealed = true;
	tape_log(tape, stream, draw->len);
	tape->seen[stream] += draw->len;
	condition_signal(&tape->more);
}

static fallible draw_frame(struct tape *tape, enum tape_stream stream, struct draw *draw)
{
	uint64_t head = tape->end.place + tape->label_len;
	size_t came, whole;

	draw->at = tape->labelled ? head : 0;
	offload_run(draw_run, draw);
	tape->file = draw->file;
	tape->made = tape->made || draw->file >= 0;
	tape->labelled = tape->labelled || !draw->errnum || draw->len;
	came = draw->len;
	whole = tape_pipe_trim(tape, draw);
	if (whole < came && tape_is_followed(tape)) {
		log_cut(tape, stream, draw, whole);
		return OK;
	}
	if (whole < came) {
		struct trimming trimming = {draw, head, whole};

		offload_run(trim_run, &trimming);
		tape->cap = tape->kept + whole;
		tape->dropped[stream] += came - whole;
	}
	tape->seen[stream] += came;
	if (came && !draw->errnum)
		tape->stalled = false;
	log_drawn(tape, stream, draw);
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
		draw->made = tape->made;
		draw->offset = tape->end.offset;
		draw->at = tape->end.place + tape->label_len;
		offload_run(draw_run, draw);
		tape->file = draw->file;
		*out_len = draw->len;
	}
	if (*out_len) {
		tape->seen[stream] += *out_len;
		tape->stalled = tape->stalled && draw->errnum;
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
	draw.made = tape->made;
	draw.offset = tape->end.offset;
	draw.len = keep;
	if (!tape->labelled)
		draw.label = (struct str){tape->label, tape->label_len};
	if (keep) {
		uint64_t before = tape->seen[stream];

		err = draw_frame(tape, stream, &draw);
		*out_len = (size_t)(tape->seen[stream] - before);
	}
	if (!keep || err || tape->stalled || draw.len < *out_len)
		note_cut(tape, stream);
	tape_disk_give(tape);
	return err;
}
