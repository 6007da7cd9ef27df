// Parts of both streams wait in one queue, in the order of the tape; the bytes of each stream come
// out of its mask in order. A part is returned as soon as its bytes are decided and it is the first
// one. If one stream holds back a few bytes while the other writes PARTS_MAX, the few are no value
// any more: they are returned as they are.
#include "agent/log_reader.h"

#include "base/clock.h"
#include "base/mem.h"

#define READ 65536
#define PARTS_MAX (1u << 20) // bytes that wait behind held ones
#define READY_MAX (64u << 20)

struct log_part {
	enum tape_stream stream;
	size_t len;
	uint64_t offset; // of its first byte
};

fallible log_reader_begin(struct log_reader *reader, struct tape *tape, const struct mask *mask,
			  uint64_t from, bool follows)
{
	if (from > (follows ? tape_reached(tape) : tape_kept(tape)))
		return err_hint(
			err_new(INVALID, "bad_offset", "the offset is past the end of the output"),
			"there are %llu bytes up to now", (unsigned long long)tape_reached(tape));
	*reader = (struct log_reader){.tape = tape, .from = from, .follows = follows};
	reader->offset = from;
	reader->read = mask ? 0 : from; // a value may begin anywhere before
	reader->until = tape_kept(tape);
	reader->room = mem_grow(NULL, READ, 1);
	for (int i = 0; i < TAPE_STREAMS; i++) {
		reader->masks[i] = mask ? mask_stream_new(mask) : NULL;
		reader->ready[i] = BUF_INIT(READY_MAX);
	}
	tape_ref(tape);
	if (follows)
		tape_attach(&reader->live, tape, reader->read);
	return OK;
}

void log_reader_end(struct log_reader *reader)
{
	if (!reader->tape)
		return;
	if (reader->follows)
		tape_detach(&reader->live);
	for (int i = 0; i < TAPE_STREAMS; i++) {
		mask_stream_free(reader->masks[i]);
		buf_done(&reader->ready[i]);
	}
	free(reader->parts);
	free(reader->room);
	tape_unref(take_ptr(reader->tape));
}

bool log_reader_is_ready(const struct log_reader *reader)
{
	return reader->ended || !reader->follows || !reader->live.tape ||
	       tape_reader_is_ready(&reader->live);
}

static void log_reader_flush(struct log_reader *reader)
{
	for (int i = 0; i < TAPE_STREAMS; i++)
		if (reader->masks[i])
			mask_flush(reader->masks[i], &reader->ready[i]);
}

static void log_reader_add(struct log_reader *reader, enum tape_stream stream, size_t len)
{
	uint64_t waiting = 0;

	if (reader->part_count == reader->part_room) {
		reader->part_room = 2 * reader->part_room + 16;
		reader->parts = mem_grow(reader->parts, reader->part_room, sizeof(*reader->parts));
	}
	reader->parts[reader->part_count++] = (struct log_part){stream, len, reader->read - len};
	if (!reader->masks[stream]) {
		buf_add(&reader->ready[stream], reader->room, len);
		return;
	}
	mask_feed(reader->masks[stream], (struct str){reader->room, len}, &reader->ready[stream]);
	for (size_t i = 0; i < reader->part_count; i++)
		waiting += reader->parts[i].len;
	if (waiting > PARTS_MAX)
		log_reader_flush(reader);
}

static fallible log_reader_read_live(struct log_reader *reader, enum tape_stream *stream,
				     size_t *len, int64_t deadline)
{
	struct err *err = tape_read_on(&reader->live, stream, reader->room, READ, len, deadline);

	if (err && !reader->live.tape && reader->live.detached) {
		err_free(err);
		tape_reattach(&reader->live, reader->tape);
		err = tape_read_on(&reader->live, stream, reader->room, READ, len, deadline);
	}
	if (err)
		return err;
	if (reader->live.missed != reader->missed)
		log_reader_flush(reader); // what follows is not adjacent
	reader->missed = reader->live.missed;
	reader->read = reader->live.offset;
	return OK;
}

static fallible log_reader_read(struct log_reader *reader, int64_t deadline)
{
	enum tape_stream stream = TAPE_STDOUT;
	uint64_t left = reader->until - reader->read;
	size_t len = 0;

	if (reader->follows)
		TRY(log_reader_read_live(reader, &stream, &len, deadline));
	else if (reader->read < reader->until)
		TRY(tape_read(reader->tape, &reader->read, &stream, reader->room,
			      left < READ ? (size_t)left : READ, &len, deadline));
	if (len) {
		log_reader_add(reader, stream, len);
		return OK;
	}
	reader->ended = true;
	// A running command may write more: the held bytes are for later.
	if (reader->follows || tape_has_ended(reader->tape))
		log_reader_flush(reader);
	return OK;
}

// Returns decided bytes of the first part. False: there are none.
static bool log_reader_take(struct log_reader *reader, enum tape_stream *out_stream,
			    struct str *out)
{
	struct log_part *part = reader->parts;
	struct buf *ready;
	size_t n;

	if (reader->taken) {
		buf_drop_front(&reader->ready[reader->taken_of], reader->taken);
		reader->taken = 0;
	}
	if (!reader->part_count || !reader->ready[part->stream].len)
		return false;
	ready = &reader->ready[part->stream];
	n = ready->len < part->len ? ready->len : part->len;
	*out_stream = reader->taken_of = part->stream;
	*out = (struct str){ready->at, n};
	reader->taken = n;
	part->offset += n;
	part->len -= n;
	reader->offset = part->offset;
	if (!part->len)
		memmove(reader->parts, reader->parts + 1,
			--reader->part_count * sizeof(*reader->parts));
	return true;
}

fallible log_reader_next(struct log_reader *reader, enum tape_stream *out_stream, struct str *out,
			 int64_t deadline)
{
	for (;;) {
		if (log_reader_take(reader, out_stream, out)) {
			uint64_t before = reader->offset - out->len;
			uint64_t skip = reader->from > before ? reader->from - before : 0;

			*out = str_skip(*out, skip < out->len ? (size_t)skip : out->len);
			if (out->len)
				return OK;
			continue;
		}
		if (reader->ended) {
			*out = (struct str){0};
			return OK;
		}
		TRY(log_reader_read(reader, deadline));
	}
}
