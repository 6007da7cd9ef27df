// Base64 that comes in pieces of any length. The padding may be missing; nothing may follow it. No
// I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct base64 {
	uint32_t bits; // of the group that is not complete
	uint8_t digits, pads;
	bool bad; // sticky
};

// Adds the bytes that are complete to `out`. False: a character that does not belong there, or no
// room in `out`.
bool base64_feed(struct base64 *base64, struct str text, struct buf *out);
// The text is over: adds what is left. False: it ended inside of a byte.
bool base64_end(struct base64 *base64, struct buf *out);
