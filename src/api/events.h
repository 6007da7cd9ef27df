// What happens, and who did what: events, the audit log, and the great comparison.
#pragma once

#include "http/router.h"

route_fn api_events, api_audit, api_audit_check, api_verify;
