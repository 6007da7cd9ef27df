// A process of a box, as the library holds it.
#pragma once

#include "lib/box.h"
#include "lib/event_reader.h"

struct cove_process {
	struct cove_box *box;
	struct cove *cove;
	char *id;
	char *base; // "/v1/sandboxes/KEY/api/process/ID"
	struct json *info;

	struct event_reader feed; // of its output
	char reached[64];	  // the place in it: id of the last event
	struct buf bytes;	  // of the last piece
	bool ended;
	bool cut; // something of it was not given
	struct cove_result result;
};
// INT, and what is left is ended: the process whose path is `base`.
fallible process_interrupt(struct cove *cove, const char *base);
