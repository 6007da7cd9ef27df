// Range and Content-Range, of RFC 9110. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum range_verdict {
	RANGE_WHOLE,   // none, or one that is ignored: malformed, or several ranges
	RANGE_PART,    // *first and *len
	RANGE_OUTSIDE, // it does not overlap the content: 416
};

// "bytes=0-99", "bytes=100-", "bytes=-5" of `size` bytes.
enum range_verdict range_read(struct str text, uint64_t size, uint64_t *first, uint64_t *len);

// "bytes 0-99/200", or "bytes */200", which queries the progress of an upload: then *len is 0 and
// *first is `total`. False: malformed. The total must be given.
bool range_content(struct str text, uint64_t *first, uint64_t *len, uint64_t *total);
