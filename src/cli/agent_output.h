// Output as lines of JSON: {"stream":"stdout","data":"…"}.
#pragma once

#include "base/buf.h"
#include "base/str.h"

// State of a stream. Bytes at the end of a piece that begin a character are kept for the next.
struct agent_output {
	const char *stream; // "stdout", "stderr"
	struct buf held;    // begun with BUF_INIT()
};

// Appends a line for a piece; `last`: the held bytes, too. What is not UTF-8 has "encoding":
// "base64".
void agent_output_piece(struct agent_output *output, struct str bytes, bool last, struct buf *out);
