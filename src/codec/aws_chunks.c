// One state a byte outside of the content. What a trailer says is not looked at: the whole body was
// received, and the archive in it is checked where it is read.
#include "codec/aws_chunks.h"

#include "codec/text.h"

#define LINE_MAX 8192
#define CHUNK_MAX (1ull << 40)

static void aws_chunks_size(struct aws_chunks *chunks, char c)
{
	int digit = text_hex_digit(c);

	if (++chunks->line > LINE_MAX) {
		chunks->state = AWS_CHUNKS_BAD;
		return;
	}
	if (c == '\n' && chunks->has_digit) {
		chunks->state = chunks->left ? AWS_CHUNKS_DATA : AWS_CHUNKS_TRAILER;
		chunks->is_over = !chunks->left;
		chunks->line = 0;
	} else if (c == '\r' || chunks->is_extension)
		return;
	else if (c == ';')
		chunks->is_extension = true;
	else if (digit < 0 || chunks->left > CHUNK_MAX)
		chunks->state = AWS_CHUNKS_BAD;
	else {
		chunks->left = chunks->left * 16 + (unsigned)digit;
		chunks->has_digit = true;
	}
}

static void aws_chunks_step(struct aws_chunks *chunks, char c)
{
	switch (chunks->state) {
	case AWS_CHUNKS_SIZE:
		aws_chunks_size(chunks, c);
		return;
	case AWS_CHUNKS_CR:
		chunks->state = c == '\r' ? AWS_CHUNKS_LF : AWS_CHUNKS_BAD;
		return;
	case AWS_CHUNKS_LF:
		chunks->state = c == '\n' ? AWS_CHUNKS_SIZE : AWS_CHUNKS_BAD;
		chunks->has_digit = chunks->is_extension = false;
		chunks->line = 0;
		return;
	case AWS_CHUNKS_TRAILER:
		if (++chunks->line > LINE_MAX)
			chunks->state = AWS_CHUNKS_BAD;
		return;
	default:
		return;
	}
}

struct str aws_chunks_read(struct aws_chunks *chunks, struct str *in)
{
	struct str out = {0};

	while (in->len && chunks->state != AWS_CHUNKS_BAD) {
		if (chunks->state == AWS_CHUNKS_DATA) {
			out = (struct str){in->at,
					   in->len < chunks->left ? in->len : (size_t)chunks->left};
			*in = str_skip(*in, out.len);
			chunks->left -= out.len;
			if (!chunks->left)
				chunks->state = AWS_CHUNKS_CR;
			return out;
		}
		aws_chunks_step(chunks, in->at[0]);
		*in = str_skip(*in, 1);
	}
	return out;
}

bool aws_chunks_is_over(const struct aws_chunks *chunks)
{
	return chunks->is_over && chunks->state == AWS_CHUNKS_TRAILER;
}

bool aws_chunks_is_bad(const struct aws_chunks *chunks)
{
	return chunks->state == AWS_CHUNKS_BAD;
}
