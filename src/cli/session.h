// Agent sessions (/v1/agent-sessions): create, list, show, attach, remove.
#pragma once

#include "cli/call.h"
#include "codec/json.h"

#define SESSIONS_PATH "/v1/agent-sessions"

// --env and --env-file as a member `env`.
fallible cli_session_put_env(struct json_out *out, const struct call *call);
