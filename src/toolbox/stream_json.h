// Writes one stream of a tape as the inside of a JSON string, piece by piece, with memory for one
// piece.
#pragma once

#include "http/http.h"
#include "manager/manager.h"
#include "protocol/shell.h"

#define STREAM_JSON_OUT_MAX (1 << 20) // size of `out`: one piece with every byte escaped

struct stream_json {
	struct http *x; // NULL: all goes into `out`; else `out` is sent whenever it is full
	struct buf *out;
	bool base64;
	bool no_nul; // remove NUL bytes from text
	void *room;  // buffer for one piece
	size_t size;
	struct shell_filter *filter; // filters one stream; NULL: none
	// Writes only what was on the tape at some moment, of a command that may still run: does
	// not wait for more, and omits an incomplete UTF-8 sequence at the end.
	bool so_far;
	uint64_t until; // tape_kept() at that moment
};

// Begins an answer of status 200 with about `bytes` from a tape and `more` from elsewhere. A small
// answer is buffered and sent by stream_json_end(); a large one is sent as it is produced. The
// caller has set `out` and the encoding; stream_json_begin() sets the rest, in the arena of `x`.
fallible stream_json_begin(struct stream_json *writer, struct http *x, uint64_t bytes, size_t more);
fallible stream_json_end(struct stream_json *writer, struct http *x);

// Writes a member of an object that has others before: ,"stdout":"…". `tail` is text after the
// stream's own bytes, in the same encoding; may be empty.
fallible stream_json_member(struct stream_json *writer, struct tape *tape, enum tape_stream stream,
			    struct str tail);
// Sends the buffered bytes if they fill a piece and there is an `x`.
fallible stream_json_flush(struct stream_json *writer);
