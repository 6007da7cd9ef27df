// Pixels of a PNG file, for terminals that want those. The file is hostile: size and memory are
// bounded, and what is not of the usual kind (8 bits a sample, not interlaced) is refused. No I/O.
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

// What is transparent is laid on white. False: it is none that is read here.
bool png_read(struct str file, struct png *out);
