// The actor of an agent session: the one task that changes its lease, runs and record. Each turn
// does the first due item, in an order that puts evidence before decisions: the result of a stop
// attempt; client commands; messages of the runner, then the end of its connection; supervision
// (pings, silence, grace); the lease's deadline; the steps of a deletion; queued runs. With nothing
// due it waits for `wake`.
//
// Each item is a transition: event (a pure function), commit, action. If the store refuses the
// commit nothing has changed, and the turn is retried.
#include <stdio.h>
#include <stdlib.h>

#include "agent/admission.h"
#include "agent/fallback_box.h"
#include "agent/faults.h"
#include "agent/link.h"
#include "agent/persist.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "types/timers.h"

#define RETRY_MS 250

static struct loop *loop_of(const struct agent_session *agent)
{
	return agent->agents->loop;
}

// ------------------------------------------------------------------------------ due items

static fallible actor_take_result(struct agent_session *agent, bool *out_did)
{
	struct hearing hearing = {
		.event = {.kind = LEASE_STOPPED,
			  .attempt = agent->stopped.attempt,
			  .seen = agent->stopped.seen,
			  .error = agent->stopped.error},
	};

	if (!agent->stopped.there)
		return OK;
	*out_did = true;
	TRY(transition_hear(agent, &hearing));
	agent->stopped.there = false;
	return OK;
}

static fallible pass_time(struct agent_session *agent, bool *out_did)
{
	int64_t due = lease_deadline(&agent->lease);

	if (!due || agents_now(agent->agents) < due)
		return OK;
	*out_did = true;
	return transition_tell(agent, LEASE_TIME, NULL);
}

// A user's new run has a quarantined lease checked once more; if it stays quarantined the run
// fails.
static fallible actor_force(struct agent_session *agent)
{
	struct run *run;

	agent->force = false;
	TRY(transition_tell(agent, LEASE_FORCE, NULL));
	if (agent->lease.state != LEASE_QUARANTINED)
		return OK;
	while ((run = agent_first(agent))) {
		struct run_before before = runs_mark(run);
		struct err *err;

		runs_set_end(run, &(struct run_end){RUN_FAILED, "cleanup_exhausted",
						    "an earlier runner could not be removed"});
		err = persist_agent_commit(
			agent, &(struct persist_agent_change){.runs = {run}, .run_count = 1});
		if (err) {
			runs_undo(run, &before);
			return err;
		}
		transition_end_run(run);
	}
	condition_signal(&agent->changed);
	return OK;
}

static fallible actor_want(struct agent_session *agent, bool *out_did)
{
	struct run *run = agent_first(agent);
	struct hearing hearing = {.event = {.kind = LEASE_WANTED}};
	auto_free struct backend_view *view = NULL;
	enum lease_state state = agent->lease.state;
	uint64_t version = agent->lease_version;

	if (!run || run->state != RUN_QUEUED || agent->deleting || agent->agents->closing ||
	    agent->agents->draining)
		return OK;
	if (state == LEASE_QUARANTINED) {
		*out_did = agent->force;
		return agent->force ? actor_force(agent) : OK;
	}
	if (state == LEASE_READY && agent->talk && agent->talk->greeted)
		return handler_send_run(agent);
	// A connected runner has until its deadline to answer; after a restart a ready one, too.
	if (state == LEASE_ACTIVE || lease_is_fenced(&agent->lease) ||
	    (state <= LEASE_READY && agent->talk) || loop_now(loop_of(agent)) < agent->launch_at)
		return OK;
	*out_did = true;
	view = mem_new_of(struct backend_view);
	attempt_look(agent, view);
	if (agent->lease_version != version) // a newer decision takes precedence
		return OK;
	hearing.event.seen = backend_judge(view, &agent->lease);
	hearing.event.error = view->failed ? view->why : NULL;
	return transition_hear(agent, &hearing);
}

// -------------------------------------------------------------------------------- the task

static fallible actor_turn(struct agent_session *agent, bool *out_did)
{
	if (!agent->reconciled) {
		*out_did = true;
		return reconcile(agent);
	}
	TRY(actor_take_result(agent, out_did));
	if (!*out_did)
		agent_command_grant(agent, out_did);
	if (!*out_did)
		TRY(handler_word(agent, out_did));
	if (!*out_did)
		TRY(supervise(agent, out_did));
	if (!*out_did)
		TRY(pass_time(agent, out_did));
	if (!*out_did && agent->deleting)
		TRY(remove_step(agent, out_did));
	if (!*out_did)
		TRY(actor_want(agent, out_did));
	return OK;
}

static void least(int64_t *at, int64_t other)
{
	if (other < *at)
		*at = other;
}

static int64_t actor_next_turn(const struct agent_session *agent)
{
	int64_t now = loop_now(loop_of(agent)), at = supervise_next(agent);
	int64_t due = lease_deadline(&agent->lease);
	const struct run *run = agent_first(agent);

	if (due)
		least(&at, now + due - agents_now(agent->agents));
	if (run && run->state == RUN_QUEUED && agent->launch_at > now)
		least(&at, agent->launch_at);
	return at;
}

static void actor_step(struct agent_session *agent)
{
	int64_t until = CLOCK_NEVER;
	auto_err err = OK;
	bool did = false;

	if (agent->retry_at > loop_now(loop_of(agent))) {
		agent_command_grant(agent, &did); // a client gets the error at once
		until = agent->retry_at;
	} else {
		agent->retry_at = 0;
		err = actor_turn(agent, &did);
	}
	if (err) {
		log_event(LOG_WARN, "agent_session.blocked", "session", agent->id, "trail",
			  err_trail(err), NULL);
		agent->retry_at = loop_now(loop_of(agent)) + RETRY_MS;
		did = true;
	}
	if (did)
		return;
	if (until == CLOCK_NEVER)
		until = actor_next_turn(agent);
	if (link_empty(&agent->commands) && !agent->stopped.there)
		err_free(condition_wait(&agent->wake, until));
}

static void actor_run(void *arg)
{
	struct agent_session *agent = arg;

	task_shield(true);
	while (agent->listed && !agent->agents->closing)
		actor_step(agent);
	transition_drop_talk(agent);
	agent->actor = NULL;
	agent_command_dismiss(agent);
	condition_signal(&agent->changed);
	agents_end(agent->agents);
	agent_unref(agent);
}

void actor_start(struct agent_session *agent)
{
	agent_ref(agent);
	agents_begin(agent->agents);
	agent->actor = task_start(loop_of(agent), "agent_session", actor_run, agent);
}
