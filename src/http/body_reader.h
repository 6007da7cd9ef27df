// Reads messages from a connection, for server and client: heads, then bodies by their framing.
// Bytes read beyond a message are kept for the next one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/http1.h"
#include "loop/stream.h"

struct body_reader_room {
	char *at;
	size_t size, start, end; // unread bytes: [start, end)
};

enum body_reader_framing {
	BODY_READER_NONE,
	BODY_READER_LENGTH,
	BODY_READER_CHUNKED,
	BODY_READER_TO_CLOSE
};

// The slices of a head point into `head`, so its bytes stay until body_reader_next(). A chunked
// body that does not fit behind them is read into `spill`.
struct body_reader {
	struct stream *stream;
	struct body_reader_room head, spill;
	enum body_reader_framing framing;
	uint64_t left; // BODY_READER_LENGTH: unread bytes of the body
	struct http1_chunks chunks;
	bool in_chunk; // the next `chunks.left` bytes are content, and none of them is buffered
	bool ended;    // the body was read to its end
};

typedef enum http1_verdict body_reader_parse(struct str bytes, struct http1_head *out);

// Reads available bytes without waiting, before the first byte of a head. *out_empty: no bytes yet.
// At the end of the stream *out_empty is false and there are no bytes.
fallible body_reader_fill(struct body_reader *body_reader, bool *out_empty);
// Reads a head. *out_verdict is MORE when the peer closed before its end. TIMEOUT at the deadline.
fallible body_reader_head(struct body_reader *body_reader, body_reader_parse *parse,
			  int64_t deadline, struct http1_head *out,
			  enum http1_verdict *out_verdict);
void body_reader_frame(struct body_reader *body_reader, enum body_reader_framing framing,
		       uint64_t length);
// The framing of a reply's body. `no_body`: the request was HEAD.
void body_reader_frame_reply(struct body_reader *body_reader, const struct http1_head *head,
			     bool no_body);
// Reads bytes of the body; *out = 0 at its end. BAD_PEER cut_body, INVALID bad_chunk, TIMEOUT.
fallible body_reader_read(struct body_reader *body_reader, void *room, size_t size,
			  int64_t silence_ms, size_t *out);
// Ends the message, body included: remaining bytes belong to the next one.
void body_reader_next(struct body_reader *body_reader);
bool body_reader_has_bytes(const struct body_reader *body_reader);
// Returns a body of known length that arrived completely with its head; it counts as read. Valid
// until the next call.
bool body_reader_whole(struct body_reader *body_reader, struct str *out);
// Empties the reader and keeps its first buffer if that is small.
void body_reader_reset(struct body_reader *body_reader);
void body_reader_done(struct body_reader *body_reader);
