// What happens, and who did what: events, the audit log, and the great comparison.
#pragma once

#include "http/router.h"

route_fn api_events, api_audit, api_audit_check, api_verify;

// Does it ask for a stream of events: by Accept, or by follow=true?
bool events_wants_stream(struct http *x);
