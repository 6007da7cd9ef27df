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
	char reached[64];	  // the position: id of the last event
	struct buf bytes;	  // the last piece
	bool ended;
	bool cut; // output is missing
	struct cove_result result;
};
// Interrupts the process whose path is `base` by INT, then kills it.
fallible process_interrupt(struct cove *cove, const char *base);
