// Observing and stopping runners. A failed or slow observation never counts as absence. One stop
// attempt: observe; SIGTERM; three observations; a kill of the whole cgroup; a last observation.
// Only "no process of the session" counts as stopped.
//
// An attempt runs in its own task, since it may hang longer than its lease waits. Before each
// signal it checks that the lease still names this attempt: a late attempt signals nothing.
#include <stdio.h>
#include <stdlib.h>

#include "agent/fallback_box.h"
#include "agent/faults.h"
#include "agent/private.h"
#include "base/log.h"
#include "base/mem.h"
#include "types/timers.h"

static enum lease_seen attempt_judge(const struct backend_view *view, const struct lease *lease)
{
	const struct backend_found *found = &view->found[0];
	const struct lease_place *place = &lease->place;

	if (view->failed)
		return LEASE_SEES_FAILED;
	if (!view->count)
		return LEASE_SEES_NOTHING;
	if (view->count > 1 || !lease->instance[0] || !found->pid ||
	    strcmp(found->instance, lease->instance) != 0 || found->generation != lease->generation)
		return LEASE_SEES_OTHER;
	// A pid alone proves nothing, but pid and start time must match where they are known.
	if (place->pid && (place->pid != found->pid || place->start != found->start))
		return LEASE_SEES_OTHER;
	return LEASE_SEES_MATCH;
}

static void fail_view(struct backend_view *view, const char *why)
{
	*view = (struct backend_view){.failed = true};
	snprintf(view->why, sizeof(view->why), "%s", why);
}

static void attempt_look(struct agent_session *agent, struct backend_view *out)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	int64_t began = loop_now(agent->agents->loop);
	int64_t deadline = began + timer_ms(TIMER_INSPECTION);
	auto_err fault = OK;

	fallback_looking(agent);
	fault = faults_meet_until(FAULT_OBSERVE, agent->id, deadline);
	if (fault)
		fail_view(out, err_message(fault));
	else
		backend->look(backend->arg, &local, &agent->lease, out);
	fallback_looked(agent, out->failed && loop_now(agent->agents->loop) >= deadline);
	if (out->failed)
		log_event(LOG_WARN, "runner.unseen", "session", agent->id, "sandbox", agent->box,
			  "why", out->why, NULL);
}

void attempt_observe(struct agent_session *agent, struct lease_event *event,
		     char why[LEASE_ERROR_MAX])
{
	auto_free struct backend_view *view = mem_new_of(struct backend_view);

	attempt_look(agent, view);
	memcpy(why, view->why, LEASE_ERROR_MAX);
	event->seen = attempt_judge(view, &agent->lease);
	event->error = view->failed ? why : NULL;
}

// ---------------------------------------------------------------------------- one attempt

struct attempt {
	struct agent_session *agent;
	char id[LEASE_ATTEMPT_LEN + 1];
	struct backend_view view;
};

static bool attempt_is_current(const struct attempt *attempt)
{
	const struct lease *lease = &attempt->agent->lease;

	return lease->state == LEASE_STOPPING && strcmp(lease->attempt, attempt->id) == 0;
}

static bool is_gone(struct attempt *attempt)
{
	attempt_look(attempt->agent, &attempt->view);
	return !attempt->view.failed && !attempt->view.count;
}

static void attempt_kill(struct attempt *attempt, bool force)
{
	struct agent_session *agent = attempt->agent;
	struct backend_site local = agent_local(agent);
	const struct backend *backend = agent->agents->backend;

	if (attempt_is_current(attempt))
		backend->end(backend->arg, &local, &agent->lease, &attempt->view, force);
}

// The observations after SIGTERM come at 100, 500 and 1000 ms.
static bool wait_gone(struct attempt *attempt)
{
	static const enum timer_name looks[] = {TIMER_OBSERVE_1, TIMER_OBSERVE_2, TIMER_OBSERVE_3};
	int64_t began = loop_now(attempt->agent->agents->loop);

	for (int i = 0; i < 3 && attempt_is_current(attempt); i++) {
		err_free(task_sleep_until(began + timer_ms(looks[i])));
		if (is_gone(attempt))
			return true;
	}
	return false;
}

static fallible attempt_stop(struct attempt *attempt)
{
	TRY(faults_meet(FAULT_STOP, attempt->agent->id));
	if (is_gone(attempt))
		return OK;
	attempt_kill(attempt, false);
	if (wait_gone(attempt))
		return OK;
	attempt_kill(attempt, true);
	is_gone(attempt);
	return OK;
}

static void attempt_run(void *arg)
{
	struct attempt *attempt = arg;
	struct agent_session *agent = attempt->agent;
	const struct backend_view *view = &attempt->view;
	auto_err err = OK;

	task_shield(true);
	err = attempt_stop(attempt);
	if (err)
		fail_view(&attempt->view, err_message(err));
	// A late result is stored, too: the lease ignores its number. But it never replaces a
	// current one.
	if (!agent->stopped.attempt[0] || attempt_is_current(attempt)) {
		memcpy(agent->stopped.attempt, attempt->id, sizeof(attempt->id));
		agent->stopped.seen = attempt_judge(view, &agent->lease);
		snprintf(agent->stopped.error, sizeof(agent->stopped.error), "%s",
			 view->failed  ? view->why
			 : view->count ? "a runner is still there"
				       : "");
	}
	condition_signal(&agent->wake);
	agents_end(agent->agents);
	agent_unref(agent);
	free(attempt);
}

void attempt_start(struct agent_session *agent)
{
	struct attempt *attempt = mem_new_of(struct attempt);

	agent_ref(agent);
	agents_begin(agent->agents);
	attempt->agent = agent;
	memcpy(attempt->id, agent->lease.attempt, sizeof(attempt->id));
	task_start(agent->agents->loop, "runner.stop", attempt_run, attempt);
}
