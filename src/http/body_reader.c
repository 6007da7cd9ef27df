// Bytes are read into one small buffer that grows to the size of the largest head. A body of known
// length is read straight into the caller's memory, never past its end. Only a chunked body may be
// read too far, into `spill`, which then becomes the first buffer of the next message.
#include "http/body_reader.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define ROOM_FIRST 4096
#define SPILL_SIZE (16 * 1024)

static struct str body_reader_unread(const struct body_reader_room *room)
{
	return (struct str){room->at + room->start, room->end - room->start};
}

static void body_reader_make_room(struct body_reader_room *room)
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

fallible body_reader_fill(struct body_reader *body_reader, bool *out_empty)
{
	struct body_reader_room *room = &body_reader->head;
	size_t n = 0;

	if (room->end == room->size)
		body_reader_make_room(room);
	TRY(stream_read_now(body_reader->stream, room->at + room->end, room->size - room->end,
			    out_empty, &n));
	room->end += n;
	return OK;
}

fallible body_reader_head(struct body_reader *body_reader, body_reader_parse *parse,
			  int64_t deadline, struct http1_head *out, enum http1_verdict *out_verdict)
{
	struct body_reader_room *room = &body_reader->head;
	size_t seen = 0;

	for (;;) {
		struct str have = body_reader_unread(room);
		size_t n = 0;

		// A head ends with LF, so parse only when one arrived: a peer that sends single
		// bytes must not make us parse up to 32 KiB for each byte.
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
			body_reader_make_room(room);
		TRY(stream_read(body_reader->stream, room->at + room->end, room->size - room->end,
				deadline, &n));
		if (n == 0) {
			*out_verdict = HTTP1_MORE;
			return OK;
		}
		room->end += n;
	}
}

void body_reader_frame(struct body_reader *body_reader, enum body_reader_framing framing,
		       uint64_t length)
{
	body_reader->framing = framing;
	body_reader->left = length;
	body_reader->chunks = (struct http1_chunks){0};
	body_reader->in_chunk = false;
	body_reader->ended = framing == BODY_READER_NONE ||
			     (framing == BODY_READER_LENGTH && length == 0);
}

void body_reader_frame_reply(struct body_reader *body_reader, const struct http1_head *head,
			     bool no_body)
{
	enum body_reader_framing framing = head->chunked      ? BODY_READER_CHUNKED
					   : head->has_length ? BODY_READER_LENGTH
							      : BODY_READER_TO_CLOSE;

	if (no_body || head->status == 204 || head->status == 304)
		framing = BODY_READER_NONE;
	body_reader_frame(body_reader, framing, head->length);
}

static int64_t silence_ends(const struct body_reader *body_reader, int64_t silence_ms)
{
	return silence_ms == CLOCK_NEVER ? CLOCK_NEVER
					 : loop_now(body_reader->stream->loop) + silence_ms;
}

static fallible body_reader_cut(void)
{
	return err_new(BAD_PEER, "cut_body", "the connection ended before the body did");
}

// Raw bytes: buffered ones first, else from the stream.
static fallible body_reader_take(struct body_reader *body_reader, void *room, size_t size,
				 int64_t silence_ms, size_t *out)
{
	struct str have = body_reader_unread(&body_reader->head);

	if (have.len == 0)
		return stream_read(body_reader->stream, room, size,
				   silence_ends(body_reader, silence_ms), out);
	if (size > have.len)
		size = have.len;
	memcpy(room, have.at, size);
	body_reader->head.start += size;
	*out = size;
	return OK;
}

static fallible fill_spill(struct body_reader *body_reader, int64_t silence_ms)
{
	struct body_reader_room *spill = &body_reader->spill;
	size_t n = 0;

	if (!spill->at) {
		spill->at = mem_grow(NULL, SPILL_SIZE, 1);
		spill->size = SPILL_SIZE;
	}
	spill->start = spill->end = 0;
	TRY(stream_read(body_reader->stream, spill->at, spill->size,
			silence_ends(body_reader, silence_ms), &n));
	if (n == 0)
		return body_reader_cut();
	spill->end = n;
	return OK;
}

// Feeds the chunk parser. Content is moved to the front of `room`, which may already contain it.
static fallible body_reader_unchunk(struct body_reader *body_reader, struct str in, void *room,
				    size_t *out_used, size_t *out)
{
	struct str data = {NULL, 0};
	enum http1_verdict verdict = http1_unchunk(&body_reader->chunks, in, &data, out_used);

	if (verdict == HTTP1_BAD || verdict == HTTP1_TOO_LARGE)
		return err_new(INVALID, "bad_chunk", "the chunks of the body are malformed");
	if (data.len > 0)
		memmove(room, data.at, data.len);
	body_reader->in_chunk = data.len > 0 && body_reader->chunks.left > 0;
	body_reader->ended = verdict == HTTP1_DONE;
	*out = data.len;
	return OK;
}

static fallible read_chunked(struct body_reader *body_reader, void *room, size_t size,
			     int64_t silence_ms, size_t *out)
{
	size_t n = 0, used;

	while (n == 0 && !body_reader->ended) {
		struct body_reader_room *from = &body_reader->head;
		struct str in;

		if (body_reader_unread(from).len == 0)
			from = &body_reader->spill;
		if (body_reader_unread(from).len == 0 && body_reader->in_chunk) {
			size_t want = body_reader->chunks.left < size ? body_reader->chunks.left
								      : size;

			TRY(stream_read(body_reader->stream, room, want,
					silence_ends(body_reader, silence_ms), &n));
			if (n == 0)
				return body_reader_cut();
			TRY(body_reader_unchunk(body_reader, (struct str){room, n}, room, &used,
						&n));
			continue;
		}
		if (body_reader_unread(from).len == 0)
			TRY(fill_spill(body_reader, silence_ms));
		in = body_reader_unread(from);
		if (in.len > size)
			in.len = size;
		TRY(body_reader_unchunk(body_reader, in, room, &used, &n));
		from->start += used;
	}
	*out = n;
	return OK;
}

fallible body_reader_read(struct body_reader *body_reader, void *room, size_t size,
			  int64_t silence_ms, size_t *out)
{
	size_t n = 0;

	if (body_reader->ended || size == 0) {
		*out = 0;
		return OK;
	}
	if (body_reader->framing == BODY_READER_CHUNKED)
		return read_chunked(body_reader, room, size, silence_ms, out);
	if (body_reader->framing == BODY_READER_LENGTH && size > body_reader->left)
		size = body_reader->left;
	TRY(body_reader_take(body_reader, room, size, silence_ms, &n));
	if (n == 0 && body_reader->framing == BODY_READER_LENGTH)
		return body_reader_cut();
	body_reader->left -= n;
	body_reader->ended = body_reader->framing == BODY_READER_LENGTH ? body_reader->left == 0
									: n == 0;
	*out = n;
	return OK;
}

bool body_reader_whole(struct body_reader *body_reader, struct str *out)
{
	struct str have = body_reader_unread(&body_reader->head);

	if (body_reader->framing != BODY_READER_LENGTH || body_reader->ended ||
	    body_reader->left > have.len)
		return false;
	*out = (struct str){have.at, body_reader->left};
	body_reader->head.start += body_reader->left;
	body_reader->left = 0;
	body_reader->ended = true;
	return true;
}

bool body_reader_has_bytes(const struct body_reader *body_reader)
{
	return body_reader->head.start < body_reader->head.end ||
	       body_reader->spill.start < body_reader->spill.end;
}

// A body may have had secrets in it.
static void body_reader_wipe(struct body_reader_room *room, size_t len)
{
	if (room->at)
		explicit_bzero(room->at, len);
}

void body_reader_next(struct body_reader *body_reader)
{
	body_reader_wipe(&body_reader->head, body_reader->head.start);
	if (body_reader->spill.start < body_reader->spill.end) {
		body_reader_wipe(&body_reader->head, body_reader->head.end);
		free(body_reader->head.at);
		body_reader->head = body_reader->spill;
		body_reader->spill = (struct body_reader_room){0};
	}
	if (body_reader->head.start == body_reader->head.end)
		body_reader->head.start = body_reader->head.end = 0;
}

void body_reader_reset(struct body_reader *body_reader)
{
	struct body_reader_room first = body_reader->head;

	body_reader_wipe(&body_reader->head, body_reader->head.end);
	body_reader_wipe(&body_reader->spill, body_reader->spill.end);
	free(body_reader->spill.at);
	if (first.size > ROOM_FIRST)
		free(take_ptr(first.at));
	first.size = first.at ? first.size : 0;
	first.start = first.end = 0;
	*body_reader = (struct body_reader){.head = first};
}

void body_reader_done(struct body_reader *body_reader)
{
	body_reader_wipe(&body_reader->head, body_reader->head.end);
	body_reader_wipe(&body_reader->spill, body_reader->spill.end);
	free(body_reader->head.at);
	free(body_reader->spill.at);
	*body_reader = (struct body_reader){0};
}
