// Fallback for a wedged shared sandbox: after two observations that timed out, new sessions of that
// owner get a second sandbox. Never undone, and durable.
#pragma once

#include "agent/private.h"

// Call these around each observation.
void fallback_looking(struct agent_session *agent);
void fallback_looked(struct agent_session *agent, bool timed_out);
// The sandbox id of a new session whose owner's first sandbox is `first`.
void fallback_choose(struct agent_sessions *agents, const char *first, char out[ID_BOX_LEN + 1]);
fallible fallback_load(struct agent_sessions *agents);
void fallback_free(struct agent_sessions *agents);
