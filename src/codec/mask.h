// Replaces values in a stream of bytes by as many '*', also a value that is split across pieces.
// Every occurrence is masked, overlapping ones too; all other bytes stay as they are, and where
// they are. No I/O.
#pragma once

#include "base/buf.h"
#include "base/str.h"

#define MASK_VALUES_MAX 1024
#define MASK_VALUE_MIN 4 // bytes: a shorter value would hide ordinary text

struct mask;
// The values are copied. NULL: nothing is to be masked.
struct mask *mask_new(const struct str *values, size_t count);
void mask_free(struct mask *mask); // wipes the values; takes NULL

// One stream. The mask outlives it.
struct mask_stream;
struct mask_stream *mask_stream_new(const struct mask *mask);
void mask_stream_free(struct mask_stream *stream); // takes NULL
// Appends to `out` what is decided: a byte that may begin a value is held back until it does or
// does not.
void mask_feed(struct mask_stream *stream, struct str in, struct buf *out);
// No more bytes follow, or none that belong to those so far: appends what was held back.
void mask_flush(struct mask_stream *stream, struct buf *out);
size_t mask_held(const struct mask_stream *stream); // bytes
