// Operations, such as pulls and builds: long work on the server that is followed by its events.
#pragma once

#include "lib/private.h"

// An event before the last one. CANCELLED ends the operation.
typedef fallible operation_event_fn(void *arg, const struct json *event);
// Follows the operation to its end, and cancels it when the caller does. *out_json: the template
// that it has made. The error is that of the operation.
fallible operation_finish(struct cove *cove, const char *id, operation_event_fn *each, void *arg,
			  char **out_json);
