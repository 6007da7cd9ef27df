// Events, the audit log, and verification of all state.
#pragma once

#include "http/router.h"

// Whether the client asks for a stream: by Accept, or by follow=true.
bool events_wants_stream(struct http *x);
