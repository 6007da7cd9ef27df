// One transition of a lease: apply an event (a pure function, types/lease), commit the new state of
// the lease and of a run, then act: launch, attach, observe, stop. If the commit fails nothing has
// changed and nothing is done. A failed launch is an event of its own.
#include <stdio.h>
#include <stdlib.h>

#include "agent/admission.h"
#include "agent/faults.h"
#include "agent/link.h"
#include "agent/persist.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "types/event.h"
#include "types/timers.h"

// ------------------------------------------------------------------------------- actions

// A failed launch counts against the run that needed it, unless cove itself was not ready.
static fallible transition_launch_failed(struct agent_session *agent, enum lease_event_kind kind,
					 struct err *failure)
{
	auto_err err = failure;
	struct run *run = agent_first(agent);
	bool again = run && launch_may_retry(run, err);
	struct transition transition = {.event = {.kind = kind, .error = err_message(err)},
					.run = run};
	int64_t wait_ms = timer_retry_ms(0);

	log_event(LOG_WARN, "runner.unready", "session", agent->id, "sandbox", agent->box, "trail",
		  err_trail(err), NULL);
	if (run) {
		transition.before = runs_mark(run);
		wait_ms = timer_retry_ms(run->tries);
		run->tries += !launch_is_early(err);
		if (!again)
			runs_set_end(run, &(struct run_end){RUN_FAILED, err_reason(err),
							    err_message(err)});
	}
	agent->launch_at = loop_now(agent->agents->loop) + wait_ms;
	return transition_apply(agent, &transition);
}

// The place is committed once it is known; without it the runner is found by its marks.
static fallible transition_launch(struct agent_session *agent)
{
	struct err *err = launch_run(agent, agent_first(agent), LAUNCH_RUNNER);

	if (err)
		return transition_launch_failed(agent, LEASE_LAUNCH_FAILED, err);
	return persist_agent_commit(
		agent, &(struct persist_agent_change){.session = true, .lease = &agent->lease});
}

static fallible transition_attach(struct agent_session *agent)
{
	struct run *run = agent_first(agent);
	struct err *err;

	if (agent->lease.state == LEASE_STARTING && run && run->state == RUN_QUEUED)
		launch_log_steps(run);
	if (agent->runner && !agent->runner->closed) {
		link_greet(agent->runner);
		agent_note_alive(agent);
		return OK;
	}
	err = launch_attach(agent);
	if (err && agent->lease.state == LEASE_STARTING)
		return transition_launch_failed(agent, LEASE_UNREADY, err);
	err_free(err); // an active runner has its grace period; others are checked when they are
		       // needed
	return OK;
}

static fallible transition_recheck(struct agent_session *agent)
{
	struct transition transition = {.event = {.kind = LEASE_RECHECKED}};
	char why[LEASE_ERROR_MAX];

	attempt_observe(agent, &transition.event, why);
	transition.event.error = NULL;
	if (transition.event.seen == LEASE_SEES_MATCH)
		transition.event.seen = LEASE_SEES_OTHER;
	return transition_apply(agent, &transition);
}

static fallible transition_alert(struct agent_session *agent)
{
	agent->agents->alerts++;
	log_event(LOG_ERROR, "alert", "alert", "lease_quarantined", "severity", "critical",
		  "session", agent->id, "sandbox", agent->box, "reason",
		  lease_reason_word(agent->lease.reason), "error", agent->lease.error, NULL);
	event_publish(EVENT_ALERT, "alert", "lease_quarantined", "severity", "critical", "session",
		      agent->id, "sandbox", agent->box, "reason",
		      lease_reason_word(agent->lease.reason), "error", agent->lease.error, NULL);
	return OK;
}

static fallible transition_stop(struct agent_session *agent)
{
	attempt_start(agent);
	return OK;
}

// The actions of a transition, in this order; the last three exclude each other.
static const struct {
	enum lease_todo todo;
	fallible (*run)(struct agent_session *agent);
} transition_actions[] = {
	{LEASE_DO_ALERT, transition_alert},   {LEASE_DO_STOP, transition_stop},
	{LEASE_DO_LAUNCH, transition_launch}, {LEASE_DO_ATTACH, transition_attach},
	{LEASE_DO_LOOK, transition_recheck},
};

// ------------------------------------------------------------------------------- events

static void transition_log(const struct agent_session *agent, const struct lease *was,
			   const struct lease_step *step)
{
	const struct lease *now = &agent->lease;
	char row[8], generation[24], attempts[12];

	snprintf(row, sizeof(row), "%d", step->row);
	snprintf(generation, sizeof(generation), "%llu", (unsigned long long)now->generation);
	snprintf(attempts, sizeof(attempts), "%u", now->attempts);
	log_event(LOG_INFO, "lease", "tenant", agent->tenant, "session", agent->id, "sandbox",
		  agent->box, "row", row, "from", lease_state_word(was->state), "to",
		  lease_state_word(now->state), "instance", now->instance, "generation", generation,
		  "reason", now->reason ? lease_reason_word(now->reason) : NULL, "attempt",
		  now->attempt[0] ? now->attempt : NULL, "attempts",
		  lease_is_fenced(now) ? attempts : NULL, "error",
		  now->error[0] ? now->error : NULL, NULL);
	event_publish(EVENT_LEASE, "tenant", agent->tenant, "session", agent->id, "sandbox",
		      agent->box, "row", row, "from", lease_state_word(was->state), "to",
		      lease_state_word(now->state), "instance", now->instance, "generation",
		      generation, "reason", now->reason ? lease_reason_word(now->reason) : NULL,
		      "attempt", now->attempt[0] ? now->attempt : NULL, "attempts",
		      lease_is_fenced(now) ? attempts : NULL, "error",
		      now->error[0] ? now->error : NULL, NULL);
}

// If the end of the run is committed: writes the last line of its log, and frees it.
static void transition_end_run(struct run *run)
{
	if (!runs_is_over(run))
		return;
	agent_unreserve(run->agent); // its usage is visible in statfs by now
	runs_log_end(run);
	runs_unlist(run);
}

static fallible transition_commit(struct agent_session *agent, struct transition *transition,
				  const struct lease *next, unsigned todo, struct run **out_lost)
{
	struct run *lost = todo & LEASE_DO_FAIL_RUNS ? agent_running(agent) : NULL;
	struct run_before before = {0};
	struct persist_agent_change change = {.lease = next};
	struct err *err;

	if (lost == transition->run)
		lost = NULL;
	if (transition->run)
		change.runs[change.run_count++] = transition->run;
	if (lost) {
		before = runs_mark(lost);
		runs_set_end(lost, &transition->lost);
		change.runs[change.run_count++] = lost;
	}
	err = persist_agent_commit(agent, &change);
	if (err && lost)
		runs_undo(lost, &before);
	if (err && transition->run)
		runs_undo(transition->run, &transition->before);
	if (!err)
		*out_lost = lost;
	return err;
}

fallible transition_fail_run(struct run *run, const struct run_end *end)
{
	struct agent_session *agent = run->agent;
	struct run_before before = runs_mark(run);
	struct err *err;

	runs_set_end(run, end);
	err = persist_agent_run(run);
	if (err) {
		runs_undo(run, &before);
		return err;
	}
	transition_end_run(run);
	condition_signal(&agent->changed);
	return OK;
}

// A runner that did not start in time is an orphan until it is verified gone; one whose run took
// too long is stuck. Both are counted for the janitor.
static void transition_count_loss(struct agent_session *agent, const struct lease *was,
				  int64_t now_ms)
{
	struct agent_sessions *agents = agent->agents;
	int64_t due = lease_deadline(was);

	if (was->state == LEASE_STARTING && lease_is_fenced(&agent->lease) && due &&
	    now_ms >= due && agent->loss != LOSS_LATE) {
		agents->orphans++;
		agent->loss = LOSS_LATE;
	}
	if (agent->lease.state == LEASE_NONE) {
		agents->orphans_ended += agent->loss == LOSS_LATE;
		agents->stuck_ended += agent->loss == LOSS_STUCK;
		agent->loss = LOSS_NONE;
	}
}

fallible transition_apply(struct agent_session *agent, struct transition *transition)
{
	struct lease_event event = transition->event;
	struct run *first = agent_first(agent), *lost = NULL;
	char instance[LEASE_INSTANCE_LEN + 1], attempt[LEASE_ATTEMPT_LEN + 1];
	auto_free struct lease *was = mem_new_of(struct lease);
	auto_free struct lease *next = mem_new_of(struct lease);
	struct lease_step step;

	lease_new_instance(instance);
	lease_new_attempt(attempt);
	event.now_ms = agents_now(agent->agents);
	event.instance = instance;
	if (event.kind != LEASE_STOPPED)
		event.attempt = attempt;
	event.has_accepted = agent_running(agent) != NULL;
	event.has_queued = first && first->state == RUN_QUEUED && !agent->deletion;
	if (event.has_accepted && !event.run)
		event.run = agent_running(agent)->id;
	if (!transition->lost.state)
		transition->lost = (struct run_end){RUN_FAILED, "runner_lost",
						    "its runner was lost"};
	*was = agent->lease;
	step = lease_handle(&agent->lease, &event, next);
	if (step.changed || transition->run)
		TRY(transition_commit(agent, transition, next, step.todo, &lost),
		    "keep the lease of %s", agent->id);
	if (step.changed) {
		transition_log(agent, was, &step);
		transition_count_loss(agent, was, event.now_ms);
		agent->agents->attempts += step.row == 18;
		if (step.row == 20 || step.row == 25)
			agent_move(agent, AGENT_VERIFIED);
		if (!lease_is_owned(&agent->lease) || agent->lease.generation != was->generation)
			launch_disconnect(agent);
	} else if (step.row == 19 || step.row == 24) {
		log_event(LOG_INFO, "lease.unchanged", "session", agent->id, "row",
			  step.row == 19 ? "19" : "24", "state",
			  lease_state_word(agent->lease.state), NULL);
	}
	if (lost)
		transition_end_run(lost);
	if (transition->run)
		transition_end_run(transition->run);
	condition_signal(&agent->changed);
	for (size_t i = 0; i < sizeof(transition_actions) / sizeof(*transition_actions); i++)
		if (step.todo & transition_actions[i].todo)
			TRY(transition_actions[i].run(agent));
	return OK;
}

fallible transition_event(struct agent_session *agent, enum lease_event_kind kind)
{
	return transition_apply(agent, &(struct transition){.event = {.kind = kind}});
}
