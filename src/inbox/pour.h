// A tape poured into JSON: one stream of it as the inside of a string, in pieces, with as much
// memory as one piece takes.
#pragma once

#include "fleet/fleet.h"
#include "http/http.h"
#include "model/shell.h"

#define POUR_OUT_MAX (1 << 20) // what `out` holds: a piece, with every byte escaped

struct pour {
	struct http *x; // NULL: all goes into `out`; else `out` is sent on whenever it is full
	struct buf *out;
	bool base64;
	bool no_nul; // NUL bytes vanish from text
	void *room;  // for one piece
	size_t size;
	struct shell_sieve *sieve; // what of it goes through, of one stream; NULL: all
	// What was on the tape at some moment, of a command that may still run: it is not waited
	// for, and half a character at the end is left out.
	bool so_far;
	uint64_t until; // tape_kept() at that moment
};

// An answer of 200, about `bytes` of which come from a tape and `more` from elsewhere: a small one
// is gathered and sent by pour_end() in one piece, a large one goes as it comes. `out` is set, and
// how the bytes are told; pour_begin() sets the rest, in the arena of `x`.
fallible pour_begin(struct pour *pour, struct http *x, uint64_t bytes, size_t more);
fallible pour_end(struct pour *pour, struct http *x);

// `tail` is text that follows the stream's own bytes, inside the same encoding; may be empty.
fallible pour_stream(struct pour *pour, struct tape *tape, enum tape_stream stream,
		     struct str tail);
// Sends what has gathered, if that is enough for a piece and there is anywhere to send it.
fallible pour_flush(struct pour *pour);
