// Appends output to a tape's log: to memory while it fits, then to the file. Bytes past the cap,
// and bytes for which the disk has no room, go to attached readers only, and the stream is marked
// truncated. A disk error other than ENOSPC stops the tape from keeping anything more.
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "box/tape_private.h"
#include "codec/pack.h"
#include "codec/text.h"
#include "loop/offload.h"

bool tape_fits(const struct tape *tape, size_t len)
{
	size_t keep = tape_keeps(tape, len);

	if (keep == 0)
		return !tape_window_takes(tape) && tape_pass_fits(tape, len);
	return !tape->name && tape_fits_memory(tape, keep);
}

static void add_memory(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len)
{
	if (tape_extend(tape, stream, bytes, len))
		return;
	tape_remember(tape, stream, bytes, len);
	tape_log(tape, stream, len);
}

fallible tape_break(struct tape *tape, int errnum)
{
	if (errnum == ENOSPC || errnum == EDQUOT) {
		tape_stall(tape, "disk_full");
		return OK;
	}
	if (!tape->broken)
		log_event(LOG_WARN, "tape.broken", "file", tape->name ? tape->name : "", "error",
			  strerror(errnum), NULL);
	tape->broken = true;
	tape->truncated[TAPE_STDOUT] = tape->truncated[TAPE_STDERR] = true;
	return err_sys(errnum, "write a tape");
}

// Appends one frame, or with len 0 only the label, to the file.
static fallible tape_put(struct tape *tape, enum frame_kind kind, const char *bytes, size_t len)
{
	struct spill spill = {
		.dir = tape->dir,
		.name = tape->name,
		.made = tape->made,
		.file = tape->file,
		.label = {tape->label, tape->labelled ? 0 : tape->label_len},
		.at = tape->end.place - tape->file_from,
		.kind = kind,
		.bytes = bytes,
		.len = len,
		.offset = tape->end.offset,
		// The end record, and no reader holds the tape.
		.shut = kind == FRAME_END && len && tape->refs <= 2 && !tape->fetching,
	};
	struct err *err;

	if (tape->labelled)
		spill.at += tape->label_len;
	if (spill.shut)
		tape->file = -1; // a reader opens it again
	offload_run(spill_run, &spill);
	tape->made = tape->made || spill.file >= 0;
	if (!spill.shut)
		tape->file = spill.file;
	if (!spill.errnum) {
		// The label may have been written while the file was being created.
		tape->labelled = tape->labelled || spill.label.len > 0;
		tape->stalled = tape->stalled && !len;
		return OK;
	}
	err = tape_break(tape, spill.errnum);
	// A label or an end record is never skipped.
	return err || kind != FRAME_END ? err : err_sys(spill.errnum, "write a tape");
}

static fallible tape_add_file(struct tape *tape, enum tape_stream stream, const char *bytes,
			      size_t len)
{
	while (len > 0) {
		size_t part = len < TAPE_FRAME_MAX ? len : TAPE_FRAME_MAX;

		TRY(tape_put(tape, (enum frame_kind)stream, bytes, part));
		if (tape->stalled)
			return OK;
		if (tape->name && tape_fits_memory(tape, part))
			tape_remember(tape, stream, bytes, part);
		else
			tape->sealed = true;
		tape_log(tape, stream, part);
		condition_signal(&tape->more);
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

	tape->sealed = tape->sealed || !tape->name;
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
	add_memory(tape, stream, bytes, keep);
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
	if (keep == 0 && tape->stalled) {
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
	if (tape->label && !tape->labelled && !tape->broken)
		err_free(tape_put(tape, FRAME_END, NULL, 0));
	tape_disk_give(tape);
}

bool tape_prepare(struct tape *tape)
{
	tape_disk_take(tape);
	if (tape->file < 0 && !tape->made)
		err_free(tape_put(tape, FRAME_END, NULL, 0));
	tape_disk_give(tape);
	return tape->made;
}

void tape_end(struct tape *tape)
{
	tape->ended = true;
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
	if (tape->name && !tape->closed)
		err = tape_put(tape, FRAME_END, room, pack.len);
	tape->ended = true;
	if (!err) {
		tape->ending = *ending;
		tape->closed = true;
	}
	tape_disk_give(tape);
	tape_close_idle(tape);
	return err;
}
