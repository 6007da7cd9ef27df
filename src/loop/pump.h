// Bytes between a stream and a file without passing through the loop: a worker moves them, slice by
// slice, and the task waits on the loop whenever the peer is not ready. Each slice is short where
// others wait for a worker, so that a few serve many transfers, and never so long that a cancelled
// task would not end soon.
#pragma once

#include "loop/stream.h"

// `len` bytes of the file from `offset` on, out of the stream. CONFLICT file_changed when the file
// ends before; TIMEOUT when no byte moved for `silence_ms`; BAD_PEER peer_gone.
fallible pump_send(struct stream *stream, int file, uint64_t offset, uint64_t len,
		   int64_t silence_ms);
// The next `len` bytes of the stream into the file, at its own position. BAD_PEER cut_body when the
// stream ends before; NO_SPACE no_space; else as above.
fallible pump_recv(struct stream *stream, int file, uint64_t len, int64_t silence_ms);
// Bytes of memory to the file, likewise in a worker.
fallible pump_put(int file, const void *bytes, size_t len);
// Some bytes of the file; *out = 0 at its end.
fallible pump_get(int file, uint64_t offset, void *room, size_t size, size_t *out);
// The first `len` bytes of one file to another's end, in one go: not for much.
fallible pump_copy(int from, uint64_t len, int to);
// How long the file is; and what lies behind `at` is cut off, where the file then stands.
fallible pump_length(int file, uint64_t *out);
fallible pump_cut(int file, uint64_t at);
// What a failed call on a file means: NO_SPACE no_space, TOO_LARGE file_too_large, else INTERNAL.
fallible pump_explain(int errnum, const char *what);
// Bytes that the host's file system beneath has free beyond the mark at which it is all but full;
// UINT64_MAX: not known. Blocks: for workers.
uint64_t pump_room(int file);
// True: the host's file system beneath is all but full (the smaller of 1 GiB and 2.5 % is left),
// and nothing should be put there that can be done without. Blocks: for workers.
bool pump_is_short(int file);
