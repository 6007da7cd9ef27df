// Values in output are masked wherever they are split, and nothing else is touched.
#include "codec/mask.h"

#include "tap.h"

#define MAX 4096

static const struct str values[] = {{"secret", 6}, {"retreat", 7}, {"aaaa", 4}, {"x\0yz", 4}};

static void run(struct str text, size_t step, struct buf *out)
{
	struct mask *mask = mask_new(values, 4);
	struct mask_stream *stream = mask_stream_new(mask);

	while (text.len) {
		struct str piece = {text.at, text.len < step ? text.len : step};

		mask_feed(stream, piece, out);
		text = str_skip(text, piece.len);
	}
	mask_flush(stream, out);
	CHECK(mask_held(stream) == 0);
	mask_stream_free(stream);
	mask_free(mask);
}

static bool gives(struct str text, struct str expected)
{
	bool good = true;

	for (size_t step = 1; step <= text.len + 1; step++) {
		auto_buf out = BUF_INIT(MAX);

		run(text, step, &out);
		good = good && str_eq(buf_view(&out), expected);
	}
	return good;
}

TEST(split, "a value is masked in pieces of every size")
{
	CHECK(gives(STR("my secret is out\n"), STR("my ****** is out\n")));
	CHECK(gives(STR("secre secret secre"), STR("secre ****** secre")));
	CHECK(gives(STR("sesecretsecretcret"), STR("se************cret")));
}

TEST(overlap, "values that overlap are masked as a whole")
{
	CHECK(gives(STR("secretreat"), STR("**********")));
	CHECK(gives(STR("baaaaaab"), STR("b******b")));
	CHECK(gives(STR("baaab"), STR("baaab")));
}

TEST(bytes, "bytes that are no text are compared as they are")
{
	CHECK(gives(STR("\xff\0x\0yz\0x\0y"), STR("\xff\0****\0x\0y")));
}

TEST(short_ones, "values that are too short are not masked")
{
	CHECK(mask_new(&STR("abc"), 1) == NULL);
	CHECK(mask_new(NULL, 0) == NULL);
}

TEST(held, "what may become a value is held back until it does not")
{
	struct mask *mask = mask_new(values, 1);
	struct mask_stream *stream = mask_stream_new(mask);
	auto_buf out = BUF_INIT(MAX);

	mask_feed(stream, STR("a sec"), &out);
	CHECK(str_is(buf_view(&out), "a ") && mask_held(stream) == 3);
	mask_feed(stream, STR("ond"), &out);
	CHECK(str_is(buf_view(&out), "a second") && mask_held(stream) == 0);
	mask_stream_free(stream);
	mask_free(mask);
}
