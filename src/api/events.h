// Events, the audit log, and verification of all state.
#pragma once

#include "http/router.h"

route_fn api_events, api_audit, api_audit_check, api_verify;

// Whether the client asks for a stream: by Accept, or by follow=true.
bool events_wants_stream(struct http *x);
