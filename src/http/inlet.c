// Bytes are read into one small room that grows to the size of the largest head. A body whose
// length is known is read straight into the caller's memory, never past its end; only a chunked one
// may be read too far, into `spill`, which then becomes the first room of the next message.
#include "http/inlet.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define ROOM_FIRST 4096
#define SPILL_SIZE (16 * 1024)

static struct str unread(const struct inlet_room *room)
{
	return (struct str){room->at + room->start, room->end - room->start};
}

static void inlet_make_room(struct inlet_room *room)
{
	if (room->start > 0) {
		memmove(room->at, room->at + room->start, room->end - room->start);
		room->end -= room->start;
		room->start = 0;
	}
	if (room->end == room->size) {
		room->size = room->size == 0 ? ROOM_FIRST : room->size * 2;
		if (room->size > HTTP1_HEAD_MAX)
			room->size = HTTP1_HEAD_MAX;
		room->at = mem_grow(room->at, room->size, 1);
	}
}

fallible inlet_fill(struct inlet *inlet, bool *out_empty)
{
	struct inlet_room *room = &inlet->head;
	size_t n = 0;

	if (room->end == room->size)
		inlet_make_room(room);
	TRY(stream_read_now(inlet->stream, room->at + room->end, room->size - room->end, out_empty,
			    &n));
	room->end += n;
	return OK;
}

fallible inlet_head(struct inlet *inlet, inlet_parse *parse, int64_t deadline,
		    struct http1_head *out, enum http1_verdict *out_verdict)
{
	struct inlet_room *room = &inlet->head;
	size_t seen = 0;

	for (;;) {
		struct str have = unread(room);
		size_t n = 0;

		// A head ends with a LF, and has at most as many lines as fields: looking only when
		// one came keeps a peer that sends single bytes from making us read 32 KiB for
		// each.
		if (have.len > 0 && (seen == 0 || have.len == HTTP1_HEAD_MAX ||
				     memchr(have.at + seen, '\n', have.len - seen))) {
			enum http1_verdict verdict = parse(have, out);

			if (verdict == HTTP1_DONE)
				room->start += out->size;
			if (verdict != HTTP1_MORE) {
				*out_verdict = verdict;
				return OK;
			}
		}
		if (have.len >= HTTP1_HEAD_MAX) {
			*out_verdict = HTTP1_TOO_LARGE;
			return OK;
		}
		seen = have.len;
		if (room->end == room->size)
			inlet_make_room(room);
		TRY(stream_read(inlet->stream, room->at + room->end, room->size - room->end,
				deadline, &n));
		if (n == 0) {
			*out_verdict = HTTP1_MORE;
			return OK;
		}
		room->end += n;
	}
}

void inlet_frame(struct inlet *inlet, enum inlet_framing framing, uint64_t length)
{
	inlet->framing = framing;
	inlet->left = length;
	inlet->chunks = (struct http1_chunks){0};
	inlet->in_chunk = false;
	inlet->ended = framing == INLET_NONE || (framing == INLET_LENGTH && length == 0);
}

static int64_t silence_ends(const struct inlet *inlet, int64_t silence_ms)
{
	return silence_ms == CLOCK_NEVER ? CLOCK_NEVER : loop_now(inlet->stream->loop) + silence_ms;
}

static fallible cut(void)
{
	return err_new(BAD_PEER, "cut_body", "the connection ended before the body did");
}

// Bytes as they are: what is buffered, else from the stream.
static fallible inlet_take(struct inlet *inlet, void *room, size_t size, int64_t silence_ms,
			   size_t *out)
{
	struct str have = unread(&inlet->head);

	if (have.len == 0)
		return stream_read(inlet->stream, room, size, silence_ends(inlet, silence_ms), out);
	if (size > have.len)
		size = have.len;
	memcpy(room, have.at, size);
	inlet->head.start += size;
	*out = size;
	return OK;
}

static fallible fill_spill(struct inlet *inlet, int64_t silence_ms)
{
	struct inlet_room *spill = &inlet->spill;
	size_t n = 0;

	if (!spill->at) {
		spill->at = mem_grow(NULL, SPILL_SIZE, 1);
		spill->size = SPILL_SIZE;
	}
	spill->start = spill->end = 0;
	TRY(stream_read(inlet->stream, spill->at, spill->size, silence_ends(inlet, silence_ms),
			&n));
	if (n == 0)
		return cut();
	spill->end = n;
	return OK;
}

// Feeds the machine; content is moved to the front of `room`, which may be where it already lies.
static fallible unchunk(struct inlet *inlet, struct str in, void *room, size_t *out_used,
			size_t *out)
{
	struct str data = {NULL, 0};
	enum http1_verdict verdict = http1_unchunk(&inlet->chunks, in, &data, out_used);

	if (verdict == HTTP1_BAD || verdict == HTTP1_TOO_LARGE)
		return err_new(INVALID, "bad_chunk", "the chunks of the body are malformed");
	if (data.len > 0)
		memmove(room, data.at, data.len);
	inlet->in_chunk = data.len > 0 && inlet->chunks.left > 0;
	inlet->ended = verdict == HTTP1_DONE;
	*out = data.len;
	return OK;
}

static fallible read_chunked(struct inlet *inlet, void *room, size_t size, int64_t silence_ms,
			     size_t *out)
{
	size_t n = 0, used;

	while (n == 0 && !inlet->ended) {
		struct inlet_room *from = &inlet->head;
		struct str in;

		if (unread(from).len == 0)
			from = &inlet->spill;
		if (unread(from).len == 0 && inlet->in_chunk) {
			size_t want = inlet->chunks.left < size ? inlet->chunks.left : size;

			TRY(stream_read(inlet->stream, room, want, silence_ends(inlet, silence_ms),
					&n));
			if (n == 0)
				return cut();
			TRY(unchunk(inlet, (struct str){room, n}, room, &used, &n));
			continue;
		}
		if (unread(from).len == 0)
			TRY(fill_spill(inlet, silence_ms));
		in = unread(from);
		if (in.len > size)
			in.len = size;
		TRY(unchunk(inlet, in, room, &used, &n));
		from->start += used;
	}
	*out = n;
	return OK;
}

fallible inlet_read(struct inlet *inlet, void *room, size_t size, int64_t silence_ms, size_t *out)
{
	size_t n = 0;

	if (inlet->ended || size == 0) {
		*out = 0;
		return OK;
	}
	if (inlet->framing == INLET_CHUNKED)
		return read_chunked(inlet, room, size, silence_ms, out);
	if (inlet->framing == INLET_LENGTH && size > inlet->left)
		size = inlet->left;
	TRY(inlet_take(inlet, room, size, silence_ms, &n));
	if (n == 0 && inlet->framing == INLET_LENGTH)
		return cut();
	inlet->left -= n;
	inlet->ended = inlet->framing == INLET_LENGTH ? inlet->left == 0 : n == 0;
	*out = n;
	return OK;
}

bool inlet_whole(struct inlet *inlet, struct str *out)
{
	struct str have = unread(&inlet->head);

	if (inlet->framing != INLET_LENGTH || inlet->ended || inlet->left > have.len)
		return false;
	*out = (struct str){have.at, inlet->left};
	inlet->head.start += inlet->left;
	inlet->left = 0;
	inlet->ended = true;
	return true;
}

bool inlet_has_bytes(const struct inlet *inlet)
{
	return inlet->head.start < inlet->head.end || inlet->spill.start < inlet->spill.end;
}

void inlet_next(struct inlet *inlet)
{
	if (inlet->spill.start < inlet->spill.end) {
		free(inlet->head.at);
		inlet->head = inlet->spill;
		inlet->spill = (struct inlet_room){0};
	}
	if (inlet->head.start == inlet->head.end)
		inlet->head.start = inlet->head.end = 0;
}

void inlet_reset(struct inlet *inlet)
{
	struct inlet_room first = inlet->head;

	free(inlet->spill.at);
	if (first.size > ROOM_FIRST)
		free(take_ptr(first.at));
	first.size = first.at ? first.size : 0;
	first.start = first.end = 0;
	*inlet = (struct inlet){.head = first};
}

void inlet_done(struct inlet *inlet)
{
	free(inlet->head.at);
	free(inlet->spill.at);
	*inlet = (struct inlet){0};
}
