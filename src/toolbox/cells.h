// The output of a cell as events, in the format of Cloudflare's interpreter.
#pragma once

#include "gateway/gateway.h"
#include "manager/contexts.h"

// The position of a client in a cell's output, as the id of its last event gives it.
struct cells_from {
	uint64_t text[TAPE_STREAMS]; // bytes
	uint64_t events;	     // of the driver
};
bool cells_from_read(struct str text, struct cells_from *out); // false: not an id

// Sends the events from that position on. The last event is `execution_complete` or `error`.
fallible cells_follow(struct http *x, struct context_run *run, const struct cells_from *from,
		      struct context_result *out);
