// Copies between a stream and a file outside of the loop: a worker moves bytes in slices, and the
// task waits on the loop when the peer is not ready. A slice is short if other calls wait for a
// worker, so that a few serve many transfers, and bounded, so that a cancelled task ends soon.
#pragma once

#include "loop/stream.h"

// Sends `len` bytes of the file from `offset` on. CONFLICT file_changed if the file ends before;
// TIMEOUT if no byte moved for `silence_ms`; BAD_PEER peer_gone.
fallible pump_send(struct stream *stream, int file, uint64_t offset, uint64_t len,
		   int64_t silence_ms);
// Receives the next `len` bytes of the stream into the file, at its current position. BAD_PEER
// cut_body if the stream ends before; NO_SPACE no_space; else as above.
fallible pump_recv(struct stream *stream, int file, uint64_t len, int64_t silence_ms);
// Writes bytes of memory to the file, in a worker.
fallible pump_put(int file, const void *bytes, size_t len);
// Some bytes of the file; *out = 0 at its end.
fallible pump_get(int file, uint64_t offset, void *room, size_t size, size_t *out);
// Appends the first `len` bytes of one file to another, in one piece: for small amounts.
fallible pump_copy(int from, uint64_t len, int to);
// The length of the file; truncates it to `at`, which becomes its position.
fallible pump_length(int file, uint64_t *out);
fallible pump_cut(int file, uint64_t at);
// The error of a failed call on a file: NO_SPACE no_space, TOO_LARGE file_too_large, else INTERNAL.
fallible pump_explain(int errnum, const char *what);
// Free bytes of the host's file system beyond the low mark; UINT64_MAX: unknown. Blocks: for
// workers.
uint64_t pump_room(int file);
// True if the host's file system is nearly full (the smaller of 1 GiB and 2.5 % is left): write
// only what is necessary. Blocks: for workers.
bool pump_is_short(int file);
