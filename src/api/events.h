// Events, the audit log, and verification of all state.
#pragma once

#include "codec/json.h"
#include "http/router.h"
#include "store/events.h"

// Whether the client asks for a stream: by Accept, or by follow=true.
bool events_wants_stream(struct http *x);
// The object of one event.
void events_write(struct json_out *out, const struct store_event *event);
