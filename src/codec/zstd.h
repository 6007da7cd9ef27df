// zstd compression and decompression, piece by piece, no I/O. Input of the decompressor is
// untrusted: its window is bounded, and so is the output of one piece.
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

// Consumes from *in (the rest stays there) and appends to `out` until it has no more room than
// ZSTD_STEP, or *in is empty. `last`: no input follows; call again until *out_done. A decompressor
// is done at the end of its frame; *in may then contain bytes after the frame. INVALID bad_archive.
#define ZSTD_STEP (128 * 1024)
fallible zstd_feed(struct zstd *zstd, struct str *in, bool last, struct buf *out, bool *out_done);
