// Executions (execution/execution.h) over HTTP: /v1/executions.
#pragma once

#include "http/router.h"

struct executions;

// UNAVAILABLE state_unwritable: their state could not be read.
fallible executions_of(struct http *x, struct executions **out);

route_fn api_executions_create, api_executions_execute, api_executions_again, api_executions_get,
	api_executions_suggest, api_executions_list, api_executions_wait, api_executions_events,
	api_executions_cancel, api_executions_complete, api_executions_fail, api_executions_exec,
	api_executions_delete;
