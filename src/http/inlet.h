// What comes in on a connection, for server and client alike: heads, then bodies by their framing,
// then whatever was read too far and belongs to the next message.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/stream.h"
#include "wire/http1.h"

struct inlet_room {
	char *at;
	size_t size, start, end; // bytes not yet consumed: [start, end)
};

enum inlet_framing { INLET_NONE, INLET_LENGTH, INLET_CHUNKED, INLET_TO_CLOSE };

// The slices of a head point into `head`, so its bytes stay until inlet_next(). A chunked body that
// does not fit behind them is read into `spill`.
struct inlet {
	struct stream *stream;
	struct inlet_room head, spill;
	enum inlet_framing framing;
	uint64_t left; // INLET_LENGTH: of the body
	struct http1_chunks chunks;
	bool in_chunk; // the next `chunks.left` bytes are content, and nothing of it is buffered
	bool ended;    // the body was read to its end
};

typedef enum http1_verdict inlet_parse(struct str bytes, struct http1_head *out);

// Reads what is there, without a wait, before the first byte of a head. *out_empty: nothing yet. At
// the end of the stream it is not empty, and there are no bytes.
fallible inlet_fill(struct inlet *inlet, bool *out_empty);
// Reads a head. *out_verdict is MORE when the peer closed before its end. TIMEOUT at the deadline.
fallible inlet_head(struct inlet *inlet, inlet_parse *parse, int64_t deadline,
		    struct http1_head *out, enum http1_verdict *out_verdict);
void inlet_frame(struct inlet *inlet, enum inlet_framing framing, uint64_t length);
// The next bytes of the body; *out = 0 at its end. BAD_PEER cut_body, INVALID bad_chunk, TIMEOUT.
fallible inlet_read(struct inlet *inlet, void *room, size_t size, int64_t silence_ms, size_t *out);
// The message is over, body and all: what is left belongs to the next one.
void inlet_next(struct inlet *inlet);
bool inlet_has_bytes(const struct inlet *inlet);
// A body of known length that came with its head, all of it; it counts as read. Good until the next
// call.
bool inlet_whole(struct inlet *inlet, struct str *out);
// Empty again, keeps the first room if it is a small one.
void inlet_reset(struct inlet *inlet);
void inlet_done(struct inlet *inlet);
