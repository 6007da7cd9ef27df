// The keeper of a conversation is a task that turns: it takes the first thing that is to be done,
// in an order that puts evidence before judgement, and sleeps when there is nothing.
//
//	1. the result of a stop attempt
//	2. what somebody asks for
//	3. what the runner said; then that it closed
//	4. supervision: pings, silence, grace
//	5. the lease's own deadline
//	6. the steps of a deletion
//	7. queued work
//
// Each is the same three movements: hear (a pure function), commit, act. When the store does not
// take a commit, nothing has changed, and the turn is tried again.
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

// ------------------------------------------------------------------------ what is to be done

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
	TRY(keeper_hear(agent, &hearing));
	agent->stopped.there = false;
	return OK;
}

static fallible pass_time(struct agent_session *agent, bool *out_did)
{
	int64_t due = lease_deadline(&agent->lease);

	if (!due || agents_now(agent->agents) < due)
		return OK;
	*out_did = true;
	return keeper_tell(agent, LEASE_TIME, NULL);
}

// A user's new run makes a quarantined lease be looked at once more; then it is refused.
static fallible actor_force(struct agent_session *agent)
{
	struct run *run;

	agent->force = false;
	TRY(keeper_tell(agent, LEASE_FORCE, NULL));
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
		keeper_end_run(run);
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
	// Who is being talked to has his deadline to answer in, after a restart a ready one, too.
	if (state == LEASE_ACTIVE || lease_is_fenced(&agent->lease) ||
	    (state <= LEASE_READY && agent->talk) || loop_now(loop_of(agent)) < agent->launch_at)
		return OK;
	*out_did = true;
	view = mem_new_of(struct backend_view);
	attempt_look(agent, view);
	if (agent->lease_version != version) // a decision that was made since comes first
		return OK;
	hearing.event.seen = backend_judge(view, &agent->lease);
	hearing.event.error = view->failed ? view->why : NULL;
	return keeper_hear(agent, &hearing);
}

// -------------------------------------------------------------------------------- turning

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

static void turn_on(struct agent_session *agent)
{
	int64_t until = CLOCK_NEVER;
	auto_err err = OK;
	bool did = false;

	if (agent->retry_at > loop_now(loop_of(agent))) {
		agent_command_grant(agent, &did); // whoever asks is told what is wrong
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

static void actor_keep(void *arg)
{
	struct agent_session *agent = arg;

	task_shield(true);
	while (agent->listed && !agent->agents->closing)
		turn_on(agent);
	keeper_drop_talk(agent);
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
	agent->actor = task_start(loop_of(agent), "keeper", actor_keep, agent);
}
