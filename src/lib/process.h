// A process of a box, as the library holds it.
#pragma once

#include "lib/box.h"
#include "lib/http_call.h"

struct cove_process {
	struct cove_box *box;
	struct cove *cove;
	char *id;   // NULL: a stream of a new process, which has not told it yet
	char *base; // "/v1/sandboxes/KEY/api/process/ID"
	struct json *info;

	struct event_reader feed; // of its output
	char reached[64];	  // the position: id of the last event
	struct buf bytes;	  // the last piece
	bool ended;
	bool is_exec;		      // made by cove_exec()
	bool cut;		      // output is missing
	uint64_t missed, missed_here; // bytes, by connections before this one; by this one
	struct cove_result result;
};
// Without an id: the caller opens its feed.
struct cove_process *process_new(struct cove_box *box);
// Reads the next output of the process whose stream is open, or opens it. Resumes it at the last
// position when the connection is lost. TIMEOUT: call again.
fallible process_next(struct cove_process *process, int64_t timeout_ms, struct cove_piece *out);
// Interrupts the process whose path is `base` by INT, then kills it.
fallible process_interrupt(struct cove *cove, const char *base);
