// Two values and a text: masked in pieces of any size as by a search for each place, with all other
// bytes where they were.
#include "codec/mask.h"

#include "fuzz.h"

static void mask_in_steps(const struct mask *mask, struct str text, size_t step, struct buf *out)
{
	struct mask_stream *stream = mask_stream_new(mask);

	while (text.len) {
		struct str piece = {text.at, text.len < step ? text.len : step};

		mask_feed(stream, piece, out);
		text = str_skip(text, piece.len);
	}
	mask_flush(stream, out);
	mask_stream_free(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len}, values[2];
	struct mask *mask;
	char *expected;

	if (len < 2 || len > 4096)
		return 0;
	text = str_skip(text, 2);
	for (int i = 0; i < 2; i++) {
		values[i] = (struct str){text.at,
					 bytes[i] % 16 < text.len ? bytes[i] % 16 : text.len};
		text = str_skip(text, values[i].len);
	}
	mask = mask_new(values, 2);
	if (!mask)
		return 0;
	expected = malloc(text.len + 1);
	memcpy(expected, text.at, text.len);
	for (int i = 0; i < 2; i++)
		for (size_t at = 0;
		     values[i].len >= MASK_VALUE_MIN && at + values[i].len <= text.len; at++)
			if (!memcmp(text.at + at, values[i].at, values[i].len))
				memset(expected + at, '*', values[i].len);
	for (size_t step = 1; step < 9; step += 3) {
		auto_buf out = BUF_INIT(1 << 16);

		mask_in_steps(mask, text, step, &out);
		MUST(str_eq(buf_view(&out), (struct str){expected, text.len}));
	}
	free(expected);
	mask_free(mask);
	return 0;
}
