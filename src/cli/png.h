// Pixels of a PNG file, for sixel. The file is hostile: size and memory are bounded; other kinds
// than 8 bits per sample, not interlaced, are refused. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define PNG_SIDE_MAX 16384
#define PNG_PIXELS_MAX (16u << 20)

struct png {
	uint32_t width, height;
	uint8_t *rgb; // 3 bytes a pixel, line after line; the caller's
};

// Transparent pixels are drawn on white. False: not supported or broken.
bool png_read(struct str file, struct png *out);
