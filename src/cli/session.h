// Agent sessions (/v1/agent-sessions): create, list, show, attach, remove.
#pragma once

#include "cli/call.h"
#include "codec/json.h"

#define SESSIONS_PATH "/v1/agent-sessions"

// --env and --env-file as a member `env`.
fallible cli_session_put_env(struct json_out *out, const struct call *call);

fallible cli_session_create(struct call *call);
fallible cli_session_ls(struct call *call);
fallible cli_session_inspect(struct call *call);
fallible cli_session_interrupt(struct call *call);
fallible cli_session_answer(struct call *call);
fallible cli_session_logs(struct call *call);
fallible cli_session_attach(struct call *call);
fallible cli_session_rm(struct call *call);
