// The output of a cell of a context (box/context.h) as it is written: text of two streams, and the
// error at its end.
#pragma once

#include "box/context.h"

struct cells_error {
	struct str name, value, traceback; // traceback: lines
};

struct cells_sink {
	void *arg;
	// Whole UTF-8 sequences, where the cell wrote such. May wait. An error ends the reading.
	fallible (*text)(void *arg, enum tape_stream stream, struct str text);
};

// Follows a cell to its end. Its failure, if it has one, goes to *out_error, whose texts live as
// long as `room`. The process that died, and a cell that was cancelled, are failures, too. Errors
// of the sink, and CANCELLED.
fallible cells_follow_run(struct context_run *run, const struct cells_sink *sink, struct buf *room,
			  struct cells_error *out_error, struct context_result *out);
