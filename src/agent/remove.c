// Deletion of an agent session. The delete is already committed; now its lease is brought to none
// by its own rules and deadlines, and only then files and records are removed, in this order. After
// a crash at any point the next daemon continues from the committed delete.
//
// A quarantined lease does not block the deletion for ever: a sandbox without other sessions is
// removed as a whole, once; a shared one never is.
#include "agent/persist.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/log.h"
#include "types/event.h"

static fallible remove_begin_stop(struct agent_session *agent)
{
	struct hearing hearing = {
		.event = {.kind = LEASE_STOP, .reason = LEASE_FOR_SESSION_DELETE},
		.lost = {RUN_FAILED, "session_deleted", "the session was deleted"},
	};

	return transition_hear(agent, &hearing);
}

// Tried once: the attempt is committed before it is made.
static fallible remove_force(struct agent_session *agent)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	auto_err err = OK;

	agent->forced = true;
	err = persist_agent_commit(agent, &(struct persist_agent_change){.session = true});
	if (err) {
		agent->forced = false;
		return take_ptr(err);
	}
	err = backend->forget(backend->arg, &local, BACKEND_END_SANDBOX);
	log_event(err ? LOG_ERROR : LOG_WARN, "agent_session.sandbox_removed", "session", agent->id,
		  "sandbox", agent->box, "trail", err ? err_trail(err) : NULL, NULL);
	return transition_tell(agent, LEASE_FORCE, NULL);
}

static bool is_alone(const struct agent_session *agent)
{
	return agent->route.kind == OWNER_SES;
}

static fallible purge(struct agent_session *agent)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);

	if (!agent->lone)
		TRY(backend->forget(backend->arg, &local,
				    is_alone(agent) ? BACKEND_END_SANDBOX : BACKEND_END_SESSION),
		    "remove the files of a session");
	runs_remove_logs(agent);
	TRY(persist_agent_drop(agent), "forget a session");
	log_event(LOG_INFO, "agent_session.deleted", "tenant", agent->tenant, "session", agent->id,
		  NULL);
	event_publish(EVENT_SESSION_GONE, "tenant", agent->tenant, "session", agent->id, NULL);
	agent_unlist(agent);
	condition_signal(&agent->changed);
	return OK;
}

fallible remove_step(struct agent_session *agent, bool *out_did)
{
	switch (agent->lease.state) {
	case LEASE_STOP_NEEDED:
	case LEASE_STOPPING:
		return OK; // by its own deadline
	case LEASE_QUARANTINED:
		if (agent->forced || !is_alone(agent))
			return OK;
		*out_did = true;
		return remove_force(agent);
	case LEASE_NONE:
		*out_did = true;
		// A session that never launched a runner has none.
		return agent->swept || agent->lease.next_generation == 1 ? purge(agent)
									 : remove_begin_stop(agent);
	default:
		*out_did = true;
		return remove_begin_stop(agent);
	}
}
