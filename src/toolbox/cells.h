// The output of a cell as events, in the words of Cloudflare's interpreter.
#pragma once

#include "gateway/gateway.h"
#include "manager/contexts.h"

// What a client has of a cell already, as the id of an event says it.
struct cells_from {
	uint64_t text[TAPE_STREAMS]; // bytes
	uint64_t events;	     // of the driver
};
bool cells_from_read(struct str text, struct cells_from *out); // false: it is none

// From there to its end, which is the last event: `execution_complete` or `error`.
fallible cells_follow(struct http *x, struct context_run *run, const struct cells_from *from,
		      struct context_result *out);
