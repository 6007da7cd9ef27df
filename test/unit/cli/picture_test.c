#include "cli/picture.h"

#include <stdlib.h>

#include "base/mem.h"
#include "cli/png.h"
#include "cli/sixel.h"
#include "codec/text.h"
#include "tap.h"

// Four pixels in two lines, red, green, blue and one that is half transparent and black, written by
// another program: RGBA, with a filter of its own in each line.
#define FOUR                                                                                       \
	"iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAYAAABytg0kAAAAF0lEQV"                                   \
	"R42mP8z8DwnxFIsDAyAElGxkYAMbIEh1LAcVgAAAAASUVORK5CYII="
static struct str four(struct buf *out)
{
	text_unbase64(out, STR(FOUR));
	return buf_view(out);
}

TEST(answers, "what a terminal answers says which pictures it takes")
{
	CHECK(picture_by_answer(STR("\033_Gi=31;OK\033\\\033[?62;c")) == PICTURE_KITTY);
	CHECK(picture_by_answer(STR("\033_Gi=31;ENOTSUP\033\\\033[?62;4c")) == PICTURE_SIXEL);
	CHECK(picture_by_answer(STR("\033[?62;22c")) == PICTURE_SAVED);
	CHECK(picture_by_answer(STR("\033[?64;1;4;9c")) == PICTURE_SIXEL);
	CHECK(picture_by_answer(STR("\033[?44;14c")) == PICTURE_SAVED);
	CHECK(picture_by_answer(STR("\033[?4")) == PICTURE_SAVED);
	CHECK(picture_by_answer(STR("typed")) == PICTURE_SAVED);
}

TEST(pixels, "the pixels of a PNG are read, and what is transparent lies on white")
{
	static const uint8_t want[] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 127, 127, 127};
	auto_buf file = BUF_INIT(1024);
	struct png png = {0};

	CHECK(png_read(four(&file), &png));
	CHECK(png.width == 2 && png.height == 2);
	CHECK(png.rgb && memcmp(png.rgb, want, sizeof(want)) == 0);
	free(png.rgb);
}

TEST(hostile, "no byte of a PNG that is changed or cut off does harm")
{
	auto_buf file = BUF_INIT(1024);
	struct str whole = four(&file);

	for (size_t i = 0; i < whole.len; i++) {
		struct png png = {0};

		CHECK(i + 12 >= whole.len || !png_read((struct str){whole.at, i}, &png) || png.rgb);
		free(png.rgb);
		for (int with = 0; with < 256; with += 15) {
			auto_free char *copy = mem_dup(whole.at, whole.len);

			png = (struct png){0};
			copy[i] = (char)with;
			if (png_read((struct str){copy, whole.len}, &png))
				free(png.rgb);
		}
	}
	CHECK(!png_read(STR("\x89PNG\r\n\x1a\n"), &(struct png){0}));
}

TEST(sixels, "sixels draw each colour of a band")
{
	auto_buf file = BUF_INIT(1024);
	auto_buf out = BUF_INIT(1 << 20);

	CHECK(sixel_put(&out, four(&file)));
	CHECK(strncmp(out.at, "\033Pq\"1;1;2;2#0;2;0;0;0", 20) == 0);
	// Blue is below red; red and green are beside each other; grey is below green.
	CHECK(strstr(out.at, "#5A$#30?@$") && strstr(out.at, "#180@$-\033\\"));
}
