// Storage of agent sessions: rows of store/agent.h with bodies that only agent/ reads.
#pragma once

#include "agent/private.h"
#include "store/agent.h"

// Commits, all or nothing, durable on return: the session's row, a new state of its lease (NULL:
// unchanged), and up to PERSIST_AGENT_RUNS_MAX runs. agent->lease changes only on success. Versions
// are incremented. UNAVAILABLE state_unwritable, state_corrupt; CONFLICT state_stale.
#define PERSIST_AGENT_RUNS_MAX 8
struct persist_agent_change {
	bool session;
	const struct lease *lease;
	struct run *runs[PERSIST_AGENT_RUNS_MAX];
	size_t run_count;
};
fallible persist_agent_commit(struct agent_session *agent,
			      const struct persist_agent_change *change);
fallible persist_agent_run(struct run *run); // the run alone
// Removes the session, its lease and its runs.
fallible persist_agent_drop(struct agent_session *agent);

// Parse rows of the store. False: the body is malformed, which is not the same as absent.
bool persist_agent_read_session(const struct store_agent *row, struct agent_session *out);
bool persist_agent_read_lease(const struct store_agent *row, struct lease *out);
bool persist_agent_read_run(const struct store_agent *row, struct run *out);
