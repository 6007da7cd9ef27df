// A tape poured into JSON: one stream of it as the inside of a string, in pieces, with as much
// memory as one piece takes.
#pragma once

#include "http/http.h"
#include "manager/manager.h"
#include "protocol/shell.h"

#define STREAM_JSON_OUT_MAX (1 << 20) // what `out` holds: a piece, with every byte escaped

struct stream_json {
	struct http *x; // NULL: all goes into `out`; else `out` is sent on whenever it is full
	struct buf *out;
	bool base64;
	bool no_nul; // NUL bytes vanish from text
	void *room;  // for one piece
	size_t size;
	struct shell_filter *filter; // what of it goes through, of one stream; NULL: all
	// What was on the tape at some moment, of a command that may still run: it is not waited
	// for, and half a character at the end is left out.
	bool so_far;
	uint64_t until; // tape_kept() at that moment
};

// An answer of 200, about `bytes` of which come from a tape and `more` from elsewhere: a small one
// is gathered and sent by stream_json_end() in one piece, a large one goes as it comes. `out` is
// set, and how the bytes are told; stream_json_begin() sets the rest, in the arena of `x`.
fallible stream_json_begin(struct stream_json *writer, struct http *x, uint64_t bytes, size_t more);
fallible stream_json_end(struct stream_json *writer, struct http *x);

// `tail` is text that follows the stream's own bytes, inside the same encoding; may be empty.
fallible stream_json_stream(struct stream_json *writer, struct tape *tape, enum tape_stream stream,
			    struct str tail);
// Sends what has gathered, if that is enough for a piece and there is anywhere to send it.
fallible stream_json_flush(struct stream_json *writer);
