// PNG decoder. The scan lines are one zlib stream, spread over chunks; libarchive unpacks it with a
// gzip header in front.
#include "cli/png.h"

#include <archive.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"

#define SIGNATURE "\x89PNG\r\n\x1a\n"
#define GZIP_HEAD "\x1f\x8b\x08\0\0\0\0\0\0\x03"
#define ZLIB_HEAD 2
#define PALETTE 256
#define PACKED_MAX ((size_t)64 << 20)

enum colour { GREY = 0, RGB = 2, INDEXED = 3, GREY_ALPHA = 4, RGB_ALPHA = 6 };

struct reading {
	uint32_t width, height;
	uint8_t colour;
	size_t samples; // bytes of a pixel
	uint8_t palette[PALETTE][3];
	uint8_t opacity[PALETTE];
	struct buf packed;
	bool has_head;
};

static uint32_t be32(const char *at)
{
	const uint8_t *b = (const uint8_t *)at;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static bool png_take_head(struct reading *r, struct str data)
{
	static const uint8_t samples[] = {
		[GREY] = 1, [RGB] = 3, [INDEXED] = 1, [GREY_ALPHA] = 2, [RGB_ALPHA] = 4};

	if (data.len != 13 || r->has_head)
		return false;
	r->width = be32(data.at);
	r->height = be32(data.at + 4);
	r->colour = (uint8_t)data.at[9];
	if (!r->width || !r->height || r->width > PNG_SIDE_MAX || r->height > PNG_SIDE_MAX ||
	    r->width * r->height > PNG_PIXELS_MAX)
		return false;
	if (data.at[8] != 8 || data.at[10] || data.at[11] || data.at[12] ||
	    r->colour >= sizeof(samples) || !samples[r->colour])
		return false;
	r->samples = samples[r->colour];
	r->has_head = true;
	return true;
}

static bool take_chunk(struct reading *r, const char *type, struct str data)
{
	if (memcmp(type, "IHDR", 4) == 0)
		return png_take_head(r, data);
	if (!r->has_head)
		return false;
	if (memcmp(type, "PLTE", 4) == 0 && data.len <= sizeof(r->palette))
		memcpy(r->palette, data.at, data.len);
	else if (memcmp(type, "tRNS", 4) == 0 && r->colour == INDEXED &&
		 data.len <= sizeof(r->opacity))
		memcpy(r->opacity, data.at, data.len);
	else if (memcmp(type, "IDAT", 4) == 0)
		buf_str(&r->packed, data);
	return buf_ok(&r->packed);
}

static bool png_take_chunks(struct reading *r, struct str file)
{
	while (file.len >= 12) {
		size_t len = be32(file.at);
		const char *type = file.at + 4;

		if (len > file.len - 12)
			return false;
		if (memcmp(type, "IEND", 4) == 0)
			break;
		if (!take_chunk(r, type, (struct str){file.at + 8, len}))
			return false;
		file = str_skip(file, len + 12);
	}
	return r->has_head && r->packed.len > ZLIB_HEAD;
}

// All `len` bytes, else the file is broken.
static bool png_unpack(struct str packed, uint8_t *out, size_t len)
{
	auto_buf gzip = BUF_INIT(PACKED_MAX + 64);
	struct archive *in = archive_read_new();
	struct archive_entry *entry;
	size_t got = 0;
	bool ok;

	buf_add(&gzip, GZIP_HEAD, sizeof(GZIP_HEAD) - 1);
	buf_str(&gzip, str_skip(packed, ZLIB_HEAD));
	buf_add(&gzip, "\0\0\0\0\0\0\0\0", 8); // the gzip trailer, which is not checked
	archive_read_support_filter_gzip(in);
	archive_read_support_format_raw(in);
	ok = buf_ok(&gzip) && archive_read_open_memory(in, gzip.at, gzip.len) == ARCHIVE_OK &&
	     archive_read_next_header(in, &entry) == ARCHIVE_OK;
	while (ok && got < len) {
		la_ssize_t n = archive_read_data(in, out + got, len - got);

		ok = n > 0;
		got += ok ? (size_t)n : 0;
	}
	archive_read_free(in);
	return ok;
}

static uint8_t paeth(int left, int up, int corner)
{
	int guess = left + up - corner;
	int by_left = abs(guess - left), by_up = abs(guess - up), by_corner = abs(guess - corner);

	if (by_left <= by_up && by_left <= by_corner)
		return (uint8_t)left;
	return (uint8_t)(by_up <= by_corner ? up : corner);
}

// The first byte of a line is its filter type.
static bool unfilter(uint8_t *line, const uint8_t *above, size_t len, size_t samples)
{
	uint8_t kind = *line++;

	for (size_t i = 0; i < len; i++) {
		uint8_t left = i >= samples ? line[i - samples] : 0;
		uint8_t up = above ? above[i] : 0;
		uint8_t corner = above && i >= samples ? above[i - samples] : 0;
		const uint8_t by[] = {0, left, up, (uint8_t)((left + up) / 2),
				      paeth(left, up, corner)};

		if (kind >= sizeof(by))
			return false;
		line[i] = (uint8_t)(line[i] + by[kind]);
	}
	return true;
}

static void to_rgb(const struct reading *r, const uint8_t *pixel, uint8_t out[3])
{
	uint8_t alpha = 255;

	for (int i = 0; i < 3; i++) {
		if (r->colour == INDEXED)
			out[i] = r->palette[pixel[0]][i];
		else
			out[i] = pixel[r->samples >= 3 ? i : 0];
	}
	if (r->colour == INDEXED)
		alpha = r->opacity[pixel[0]];
	else if (r->colour == GREY_ALPHA || r->colour == RGB_ALPHA)
		alpha = pixel[r->samples - 1];
	for (int i = 0; i < 3; i++)
		out[i] = (uint8_t)((out[i] * alpha + 255 * (255 - alpha)) / 255);
}

static bool png_draw(struct reading *r, struct png *out)
{
	size_t len = r->width * r->samples;
	auto_free uint8_t *lines = mem_new((len + 1) * r->height);
	uint8_t *rgb;

	if (!png_unpack(buf_view(&r->packed), lines, (len + 1) * r->height))
		return false;
	for (uint32_t y = 0; y < r->height; y++) {
		uint8_t *line = lines + y * (len + 1);

		if (!unfilter(line, y ? line - len : NULL, len, r->samples))
			return false;
	}
	rgb = mem_new((size_t)r->width * r->height * 3);
	for (uint32_t y = 0; y < r->height; y++)
		for (uint32_t x = 0; x < r->width; x++)
			to_rgb(r, lines + y * (len + 1) + 1 + x * r->samples,
			       rgb + ((size_t)y * r->width + x) * 3);
	*out = (struct png){r->width, r->height, rgb};
	return true;
}

bool png_read(struct str file, struct png *out)
{
	auto_free struct reading *r = mem_new_of(struct reading);
	bool ok;

	if (file.len < sizeof(SIGNATURE) - 1 ||
	    memcmp(file.at, SIGNATURE, sizeof(SIGNATURE) - 1) != 0)
		return false;
	r->packed = BUF_INIT(PACKED_MAX);
	memset(r->opacity, 255, sizeof(r->opacity));
	ok = png_take_chunks(r, str_skip(file, sizeof(SIGNATURE) - 1)) && png_draw(r, out);
	buf_done(&r->packed);
	return ok;
}
