// Secrets that a sandbox may have: without what renews them.
#pragma once

#include "base/buf.h"
#include "base/err.h"

// Appends the text. If it is JSON, each field whose name contains "refresh", in any case and depth,
// is emptied and not removed: strings are "", numbers 0, booleans false. INVALID bad_secret: the
// text looks like JSON, or `is_json` says that it is, and it cannot be read. No I/O.
fallible scrub_secret(struct str text, bool is_json, struct buf *out);
