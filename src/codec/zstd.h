// Bytes through zstd, piece by piece, no I/O. What comes in to be unpacked is hostile: its window
// is bounded, and so is what one piece of it may become.
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct zstd;

struct zstd *zstd_packer(int level);
struct zstd *zstd_unpacker(void);
void zstd_free(struct zstd *zstd); // takes NULL
static inline void auto_zstd_(struct zstd **zstd)
{
	zstd_free(*zstd);
}
#define auto_zstd on_exit_call(auto_zstd_) struct zstd *

// Takes some of *in (what is left stays there) and appends to `out` until that has no more room
// than ZSTD_STEP, or *in is empty. `last`: nothing follows; call again until *out_done. An unpacker
// is done when its frame is; *in may then hold what does not belong to it. INVALID bad_archive.
#define ZSTD_STEP (128 * 1024)
fallible zstd_feed(struct zstd *zstd, struct str *in, bool last, struct buf *out, bool *out_done);
