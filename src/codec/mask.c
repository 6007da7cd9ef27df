// Knuth, Morris and Pratt's search, once per value: a state per value is all that is carried from
// one piece to the next. The bytes of the longest unfinished match are held back, already masked
// where another value covers them.
#include "codec/mask.h"

#include "base/mem.h"
#include "base/secret.h"
#include "base/secret_text.h"

struct mask_value {
	uint8_t *bytes; // of secret_text_new()
	uint32_t *fail; // of a prefix of i + 1 bytes: the longest one that it ends with
	size_t len;
};

struct mask {
	size_t count;
	struct mask_value values[];
};

struct mask_stream {
	const struct mask *mask;
	struct buf work; // held bytes
	size_t states[];
};

static struct mask_value mask_value_new(struct str text)
{
	struct mask_value value = {(uint8_t *)secret_text_new(text.at, text.len), NULL, text.len};
	size_t have = 0;

	value.fail = mem_new(text.len * sizeof(*value.fail));
	for (size_t i = 1; i < text.len; i++) {
		while (have && value.bytes[have] != value.bytes[i])
			have = value.fail[have - 1];
		have += value.bytes[have] == value.bytes[i];
		value.fail[i] = (uint32_t)have;
	}
	return value;
}

static bool mask_takes(struct str value)
{
	return value.len >= MASK_VALUE_MIN && value.len < SECRET_TEXT_MAX;
}

struct mask *mask_new(const struct str *values, size_t count)
{
	struct mask *mask;
	size_t good = 0;

	for (size_t i = 0; i < count; i++)
		good += mask_takes(values[i]);
	if (!good)
		return NULL;
	mask = mem_new(sizeof(*mask) + good * sizeof(*mask->values));
	for (size_t i = 0; i < count && mask->count < MASK_VALUES_MAX; i++)
		if (mask_takes(values[i]))
			mask->values[mask->count++] = mask_value_new(values[i]);
	return mask;
}

void mask_free(struct mask *mask)
{
	for (size_t i = 0; mask && i < mask->count; i++) {
		secret_text_free((char *)mask->values[i].bytes);
		free(mask->values[i].fail);
	}
	free(mask);
}

struct mask_stream *mask_stream_new(const struct mask *mask)
{
	struct mask_stream *stream = mem_new(sizeof(*stream) +
					     mask->count * sizeof(*stream->states));

	stream->mask = mask;
	stream->work = BUF_INIT(SIZE_MAX / 2);
	return stream;
}

void mask_stream_free(struct mask_stream *stream)
{
	if (stream)
		secret_buf_done(&stream->work);
	free(stream);
}

size_t mask_held(const struct mask_stream *stream)
{
	return stream->work.len;
}

// Searches for one value in `in`, the last bytes of the work. Returns how many bytes of an
// unfinished match are at the end.
static size_t mask_search(struct mask_stream *stream, size_t number, struct str in)
{
	const struct mask_value *value = &stream->mask->values[number];
	size_t have = stream->states[number], before = stream->work.len - in.len;

	for (size_t i = 0; i < in.len; i++) {
		uint8_t byte = (uint8_t)in.at[i];

		if (!have && byte != value->bytes[0]) {
			const char *next = memchr(in.at + i, value->bytes[0], in.len - i);

			if (!next)
				break;
			i = (size_t)(next - in.at);
			byte = value->bytes[0];
		}
		while (have && value->bytes[have] != byte)
			have = value->fail[have - 1];
		have += value->bytes[have] == byte;
		if (have == value->len) {
			memset(stream->work.at + before + i + 1 - have, '*', have);
			have = value->fail[have - 1];
		}
	}
	stream->states[number] = have;
	return have;
}

void mask_feed(struct mask_stream *stream, struct str in, struct buf *out)
{
	size_t hold = 0;

	buf_str(&stream->work, in);
	for (size_t i = 0; i < stream->mask->count; i++) {
		size_t held = mask_search(stream, i, in);

		hold = held > hold ? held : hold;
	}
	buf_add(out, stream->work.at, stream->work.len - hold);
	buf_drop_front(&stream->work, stream->work.len - hold);
}

void mask_flush(struct mask_stream *stream, struct buf *out)
{
	buf_add(out, stream->work.at, stream->work.len);
	buf_clear(&stream->work);
	memset(stream->states, 0, stream->mask->count * sizeof(*stream->states));
}
