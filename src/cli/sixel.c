// Sixel encoder: the picture is shrunk to WIDTH_MAX, reduced to a palette of STEPS per channel, and
// written in bands of six lines, one colour after another.
#include "cli/sixel.h"

#include <stdlib.h>

#include "base/mem.h"
#include "cli/png.h"

#define WIDTH_MAX 1000 // pixels; wider pictures are shrunk
#define STEPS 6	       // of each of red, green and blue
#define COLOURS (STEPS * STEPS * STEPS)
#define BAND 6

struct image {
	uint32_t width, height;
	uint8_t *colours; // of each pixel
};

static uint8_t sixel_colour_of(const uint8_t *rgb)
{
	int steps[3];

	for (int i = 0; i < 3; i++)
		steps[i] = (rgb[i] * (STEPS - 1) + 127) / 255;
	return (uint8_t)((steps[0] * STEPS + steps[1]) * STEPS + steps[2]);
}

static struct image shrink(const struct png *png)
{
	uint32_t by = (png->width + WIDTH_MAX - 1) / WIDTH_MAX;
	struct image image = {(png->width + by - 1) / by, (png->height + by - 1) / by, NULL};

	image.colours = mem_new((size_t)image.width * image.height);
	for (uint32_t y = 0; y < image.height; y++)
		for (uint32_t x = 0; x < image.width; x++)
			image.colours[(size_t)y * image.width + x] = sixel_colour_of(
				png->rgb + ((size_t)y * by * png->width + (size_t)x * by) * 3);
	return image;
}

static void put_palette(struct buf *out)
{
	for (int i = 0; i < COLOURS; i++)
		buf_fmt(out, "#%d;2;%d;%d;%d", i, i / (STEPS * STEPS) * 100 / (STEPS - 1),
			i / STEPS % STEPS * 100 / (STEPS - 1), i % STEPS * 100 / (STEPS - 1));
}

static void put_run(struct buf *out, char sixel, uint32_t count)
{
	if (count > 3)
		buf_fmt(out, "!%u%c", count, sixel);
	else
		while (count--)
			buf_char(out, sixel);
}

// The pixels of a column of a band that have the colour, as a character.
static char sixel_at(const struct image *image, uint32_t x, uint32_t top, int colour)
{
	int bits = 0;

	for (uint32_t i = 0; i < BAND && top + i < image->height; i++)
		if (image->colours[(size_t)(top + i) * image->width + x] == colour)
			bits |= 1 << i;
	return (char)('?' + bits);
}

static void put_colour(struct buf *out, const struct image *image, uint32_t top, int colour)
{
	char last = 0;
	uint32_t count = 0;

	buf_fmt(out, "#%d", colour);
	for (uint32_t x = 0; x < image->width; x++) {
		char sixel = sixel_at(image, x, top, colour);

		if (sixel != last) {
			put_run(out, last, count);
			count = 0;
		}
		last = sixel;
		count++;
	}
	if (last != '?') // no pixels of this colour up to the end
		put_run(out, last, count);
	buf_char(out, '$');
}

static void put_band(struct buf *out, const struct image *image, uint32_t top)
{
	bool used[COLOURS] = {0};

	for (uint32_t y = top; y < top + BAND && y < image->height; y++)
		for (uint32_t x = 0; x < image->width; x++)
			used[image->colours[(size_t)y * image->width + x]] = true;
	for (int i = 0; i < COLOURS; i++)
		if (used[i])
			put_colour(out, image, top, i);
	buf_char(out, '-');
}

bool sixel_put(struct buf *out, struct str file)
{
	struct png png;
	struct image image;

	if (!png_read(file, &png))
		return false;
	image = shrink(&png);
	buf_fmt(out, "\033Pq\"1;1;%u;%u", image.width, image.height);
	put_palette(out);
	for (uint32_t top = 0; top < image.height; top += BAND)
		put_band(out, &image, top);
	buf_text(out, "\033\\");
	free(png.rgb);
	free(image.colours);
	return true;
}
