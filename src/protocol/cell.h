// The output of a cell, as an interpreter's driver writes it (src/kernels): text, and between it
// events in frames with a key that the printed text does not know. A frame is one write, so nothing
// stands inside of it:
//
//	0x1e KEY SIGN LENGTH bytes
//
// KEY has 16 hex digits, LENGTH 4; SIGN is '+' if more of the event follows, else '.'. The key is
// the first line of the tape, so a tape can be read again. No I/O. The bytes are hostile: a
// malformed frame is text, and an event is bounded and not trusted.
#pragma once

#include "base/buf.h"

#define CELL_KEY 16
#define CELL_EVENT_MAX (17u << 20) // the most that a driver sends, with its fields

struct cell {
	// set by the caller
	void (*text)(void *arg, struct str bytes);
	void (*event)(void *arg, struct str bytes); // JSON, not checked
	void *arg;
	// Internal; zeroed.
	char sign[1 + CELL_KEY]; // 0x1e and the key
	size_t keyed;		 // bytes of the first line that were read
	char head[5];		 // '+' or '.', and the length
	size_t matched;		 // bytes of sign and head
	size_t left;		 // of the piece
	struct buf body;
};

// The key line of a tape.
void cell_put_key(struct buf *out, const char *key);

// More bytes of stdout, the key line first.
void cell_read(struct cell *cell, struct str bytes);
// End of the output: the beginning of a frame is text.
void cell_end(struct cell *cell);
void cell_done(struct cell *cell);
