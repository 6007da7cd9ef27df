// Agent sessions (agent/session.h) over HTTP: /v1/agent-sessions.
#pragma once

#include "http/http.h"

fallible api_sessions_create(struct http *x);
fallible api_sessions_list(struct http *x);
fallible api_sessions_get(struct http *x);
fallible api_sessions_delete(struct http *x);
fallible api_sessions_run(struct http *x);
fallible api_sessions_runs(struct http *x);
fallible api_sessions_get_run(struct http *x);
fallible api_sessions_events(struct http *x);
fallible api_sessions_interrupt(struct http *x);
fallible api_sessions_answer(struct http *x);
fallible api_sessions_logs(struct http *x);
fallible api_sessions_terminal(struct http *x);
