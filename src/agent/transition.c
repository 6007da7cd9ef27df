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

static struct loop *transition_loop(const struct agent_session *agent)
{
	return agent->agents->loop;
}

// ------------------------------------------------------------------------------- actions

void transition_drop_talk(struct agent_session *agent)
{
	link_drop_to(take_ptr(agent->talk));
	agent->sent_on = 0;
	agent->pinged_at = 0;
	agent->port = 0;
}

// True if a part of cove is not ready, which is not the runner's fault: the launch is retried.
static bool is_away(const struct err *err)
{
	static const char *const reasons[] = {"no_warden", "starting", "box_starting"};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (err_kind(err) == ERR_UNAVAILABLE && !strcmp(err_reason(err), reasons[i]))
			return true;
	return false;
}

// Whether a retry may help, and one is left.
static bool may_try_again(const struct run *run, const struct err *err)
{
	enum err_kind kind = err_kind(err);

	if (is_away(err))
		return true;
	return run->tries < RUN_TRIES_MAX && kind != ERR_INVALID && kind != ERR_NOT_FOUND &&
	       kind != ERR_FORBIDDEN && kind != ERR_NO_SPACE;
}

// A failed launch counts against the run that needed it, unless cove itself was not ready.
static fallible launch_failed(struct agent_session *agent, enum lease_event_kind kind,
			      struct err *failure)
{
	auto_err err = failure;
	struct run *run = agent_first(agent);
	bool again = run && may_try_again(run, err);
	struct hearing hearing = {.event = {.kind = kind, .error = err_message(err)}, .run = run};
	static const int64_t pauses_ms[] = {1000, 2000, 4000};
	int64_t wait_ms = pauses_ms[0];

	log_event(LOG_WARN, "runner.unready", "session", agent->id, "sandbox", agent->box, "trail",
		  err_trail(err), NULL);
	if (run) {
		hearing.before = runs_mark(run);
		wait_ms = pauses_ms[run->tries < 2 ? run->tries : 2];
		run->tries += !is_away(err);
		if (!again)
			runs_set_end(run, &(struct run_end){RUN_FAILED, err_reason(err),
							    err_message(err)});
	}
	agent->launch_at = loop_now(transition_loop(agent)) + wait_ms / timers_scale_now();
	return transition_hear(agent, &hearing);
}

fallible transition_talk(struct agent_session *agent, int fd)
{
	transition_drop_talk(agent);
	agent_note_alive(agent);
	return link_open(agent, fd, &agent->talk);
}

static void transition_log_step(struct run *run, const char *step)
{
	if (run)
		runs_log_step(run, step);
}

// Loop time at which a start fails: the lease's deadline while it is starting.
static int64_t startup_ends(const struct agent_session *agent)
{
	int64_t now = loop_now(transition_loop(agent));

	if (agent->lease.state != LEASE_STARTING)
		return now + timer_ms(TIMER_STARTUP);
	return now + lease_deadline(&agent->lease) - agents_now(agent->agents);
}

fallible transition_settle(struct agent_session *agent, struct run *run)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	bool cold = false;

	transition_log_step(run, "sandbox_provision");
	TRY(faults_meet_until(FAULT_LAUNCH, agent->id, startup_ends(agent)), "start in time");
	TRY(backend->provision(backend->arg, &local, &cold), "provide a sandbox");
	transition_log_step(run, "disk_check");
	if (!agent->prepared)
		TRY(admission_ask(agent));
	transition_log_step(run, "workspace_setup");
	TRY(admission_prepared(agent, backend->prepare(backend->arg, &local)),
	    "prepare the workspace");
	agent->prepared = true;
	return OK;
}

static fallible start_runner(struct agent_session *agent)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	struct backend_launch what = {
		.argv = (const char *const *)agent->argv,
		.env = &agent->env,
		.instance = agent->lease.instance,
		.generation = agent->lease.generation,
	};
	struct run *run = agent_first(agent);
	int fd = -1;

	TRY(transition_settle(agent, run));
	transition_log_step(run, "runner_start");
	TRY(backend->launch(backend->arg, &local, &what, &agent->lease.place, &fd),
	    "start the runner");
	return transition_talk(agent, fd);
}

// The place is committed once it is known; without it the runner is found by its marks.
static fallible transition_launch(struct agent_session *agent)
{
	struct err *err = start_runner(agent);

	if (err)
		return launch_failed(agent, LEASE_LAUNCH_FAILED, err);
	return persist_agent_commit(
		agent, &(struct persist_agent_change){.session = true, .lease = &agent->lease});
}

static fallible transition_attach(struct agent_session *agent)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	struct run *run = agent_first(agent);
	struct err *err;
	int fd = -1;

	if (agent->lease.state == LEASE_STARTING && run && run->state == RUN_QUEUED) {
		runs_log_step(run, "sandbox_provision");
		runs_log_step(run, "disk_check");
		runs_log_step(run, "workspace_setup");
		runs_log_step(run, "runner_start");
	}
	if (agent->talk && !agent->talk->closed) {
		link_greet(agent->talk);
		agent_note_alive(agent);
		return OK;
	}
	err = backend->attach(backend->arg, &local, &agent->lease, &fd);
	if (!err)
		err = transition_talk(agent, fd);
	if (err && agent->lease.state == LEASE_STARTING)
		return launch_failed(agent, LEASE_UNREADY, err);
	err_free(err); // an active runner has its grace period; others are checked when they are
		       // needed
	return OK;
}

static fallible transition_recheck(struct agent_session *agent)
{
	struct hearing hearing = {.event = {.kind = LEASE_RECHECKED}};
	auto_free struct backend_view *view = mem_new_of(struct backend_view);

	attempt_look(agent, view);
	hearing.event.seen = backend_judge(view, &agent->lease);
	if (hearing.event.seen == LEASE_SEES_MATCH)
		hearing.event.seen = LEASE_SEES_OTHER;
	return transition_hear(agent, &hearing);
}

static fallible transition_act(struct agent_session *agent, unsigned todo)
{
	if (todo & LEASE_DO_ALERT) {
		agent->agents->alerts++;
		log_event(LOG_ERROR, "alert", "alert", "lease_quarantined", "severity", "critical",
			  "session", agent->id, "sandbox", agent->box, "reason",
			  lease_reason_word(agent->lease.reason), "error", agent->lease.error,
			  NULL);
		event_publish(EVENT_ALERT, "alert", "lease_quarantined", "severity", "critical",
			      "session", agent->id, "sandbox", agent->box, "reason",
			      lease_reason_word(agent->lease.reason), "error", agent->lease.error,
			      NULL);
	}
	if (todo & LEASE_DO_STOP)
		attempt_start(agent);
	if (todo & LEASE_DO_LAUNCH)
		return transition_launch(agent);
	if (todo & LEASE_DO_ATTACH)
		return transition_attach(agent);
	if (todo & LEASE_DO_LOOK)
		return transition_recheck(agent);
	return OK;
}

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
void transition_end_run(struct run *run)
{
	if (!runs_is_over(run))
		return;
	agent_unreserve(run->agent); // its usage is visible in statfs by now
	runs_log_end(run);
	runs_unlist(run);
}

static fallible transition_commit(struct agent_session *agent, struct hearing *hearing,
				  const struct lease *next, unsigned todo, struct run **out_lost)
{
	struct run *lost = todo & LEASE_DO_FAIL_RUNS ? agent_running(agent) : NULL;
	struct run_before before = {0};
	struct persist_agent_change change = {.lease = next};
	struct err *err;

	if (lost == hearing->run)
		lost = NULL;
	if (hearing->run)
		change.runs[change.run_count++] = hearing->run;
	if (lost) {
		before = runs_mark(lost);
		runs_set_end(lost, &hearing->lost);
		change.runs[change.run_count++] = lost;
	}
	err = persist_agent_commit(agent, &change);
	if (err && lost)
		runs_undo(lost, &before);
	if (err && hearing->run)
		runs_undo(hearing->run, &hearing->before);
	if (!err)
		*out_lost = lost;
	return err;
}

// A runner that did not start in time is an orphan until it is verified gone; one whose run took
// too long is stuck.
static void note_orphan(struct agent_session *agent, const struct lease *was, int64_t now_ms)
{
	int64_t due = lease_deadline(was);

	if (was->state == LEASE_STARTING && lease_is_fenced(&agent->lease) && due &&
	    now_ms >= due) {
		agent->agents->orphans += !agent->orphaned;
		agent->orphaned = true;
	}
	if (agent->lease.state == LEASE_NONE && agent->orphaned) {
		agent->agents->orphans_ended++;
		agent->orphaned = false;
	}
	if (agent->lease.state == LEASE_NONE && agent->stuck) {
		agent->agents->stuck_ended++;
		agent->stuck = false;
	}
}

fallible transition_hear(struct agent_session *agent, struct hearing *hearing)
{
	struct lease_event event = hearing->event;
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
	event.has_queued = first && first->state == RUN_QUEUED && !agent->deleting;
	if (event.has_accepted && !event.run)
		event.run = agent_running(agent)->id;
	if (!hearing->lost.state)
		hearing->lost = (struct run_end){RUN_FAILED, "runner_lost", "its runner was lost"};
	*was = agent->lease;
	step = lease_hear(&agent->lease, &event, next);
	if (step.changed || hearing->run)
		TRY(transition_commit(agent, hearing, next, step.todo, &lost),
		    "keep the lease of %s", agent->id);
	if (step.changed) {
		transition_log(agent, was, &step);
		note_orphan(agent, was, event.now_ms);
		agent->agents->attempts += step.row == 18;
		agent->swept |= agent->deleting && (step.row == 20 || step.row == 25);
		if (!lease_is_owned(&agent->lease) || agent->lease.generation != was->generation)
			transition_drop_talk(agent);
	} else if (step.row == 19 || step.row == 24) {
		log_event(LOG_INFO, "lease.unchanged", "session", agent->id, "row",
			  step.row == 19 ? "19" : "24", "state",
			  lease_state_word(agent->lease.state), NULL);
	}
	if (lost)
		transition_end_run(lost);
	if (hearing->run)
		transition_end_run(hearing->run);
	condition_signal(&agent->changed);
	return transition_act(agent, step.todo);
}

fallible transition_tell(struct agent_session *agent, enum lease_event_kind kind, const char *error)
{
	struct hearing hearing = {.event = {.kind = kind, .error = error}};

	return transition_hear(agent, &hearing);
}
