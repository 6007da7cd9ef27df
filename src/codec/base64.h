// Decodes base64 that arrives in pieces of any length. The padding may be missing; nothing may
// follow it. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct base64 {
	uint32_t bits; // of the incomplete group
	uint8_t digits, pads;
	bool bad; // sticky
};

// Appends complete bytes to `out`. False: an invalid character, or no room in `out`.
bool base64_feed(struct base64 *base64, struct str text, struct buf *out);
// The text has ended: appends the rest. False: it ended inside a byte.
bool base64_end(struct base64 *base64, struct buf *out);
