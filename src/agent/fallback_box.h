// A shared sandbox that cannot be looked at any more: after two inspections of its route that took
// too long, new conversations of that owner get a second slot. One way, and durable.
#pragma once

#include "agent/private.h"

// Around each look.
void fallback_looking(struct agent_session *agent);
void fallback_looked(struct agent_session *agent, bool timed_out);
// The id that a new conversation gets whose route leads to `first`.
void fallback_choose(struct agent_sessions *agents, const char *first, char out[ID_BOX_LEN + 1]);
fallible fallback_load(struct agent_sessions *agents);
void fallback_free(struct agent_sessions *agents);
