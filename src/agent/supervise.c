// Supervision of a live runner. During a run: a ping after a minute without output, which must be
// answered; some output within five minutes; after a lost connection a grace period to come back,
// in which nothing else is checked. A run with an open question is not silent.
//
// Received messages are handled before supervision (actor.c), so a result that was sent in time
// counts even if its runner has exited.
#include <stdio.h>

#include "agent/link.h"
#include "agent/persist.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/clock.h"
#include "base/log.h"
#include "types/timers.h"

#define DIAL_STEPS 20 // attempts to reconnect within the grace period

static int64_t now_of(const struct agent_session *agent)
{
	return loop_now(agent->agents->loop);
}

static int64_t to_loop(const struct agent_session *agent, int64_t wall_ms)
{
	return now_of(agent) + wall_ms - agents_now(agent->agents);
}

static bool is_connected(const struct agent_session *agent)
{
	return agent->runner && !agent->runner->closed && agent->runner->greeted;
}

static void least(int64_t *at, int64_t other)
{
	if (other < *at)
		*at = other;
}

// A run without heartbeats is stuck after half an hour, or after twice its timeout. A run with an
// open question waits for a person.
static int64_t stuck_at(const struct agent_session *agent, const struct run *run)
{
	int64_t limit = timer_ms(TIMER_STUCK), twice = 2 * (int64_t)run->timeout_ms;
	int64_t at = to_loop(agent, run->started_ms + (twice > limit ? twice : limit));
	int64_t stale = agent->beat_at + timer_ms(TIMER_STALE);

	if (run->question[0] || !run->started_ms)
		return CLOCK_NEVER;
	return at > stale ? at : stale;
}

static int64_t next_of_work(const struct agent_session *agent, const struct run *run)
{
	int64_t at = CLOCK_NEVER, now = now_of(agent);

	if (run->deadline_ms)
		least(&at, to_loop(agent, run->deadline_ms));
	if (!is_connected(agent)) {
		least(&at, run->grace_ms ? to_loop(agent, run->grace_ms) : now);
		if (agent->port)
			least(&at, now + timer_ms(TIMER_GRACE) / DIAL_STEPS);
		return at;
	}
	least(&at, stuck_at(agent, run));
	if (!run->question[0])
		least(&at, agent->output_at + timer_ms(TIMER_NO_OUTPUT));
	if (agent->pinged_at)
		least(&at, agent->pinged_at + timer_ms(TIMER_PONG));
	else
		least(&at, (agent->output_at > agent->received_at ? agent->output_at
								  : agent->received_at) +
				   timer_ms(TIMER_PING));
	return at;
}

int64_t supervise_next(const struct agent_session *agent)
{
	const struct run *run = agent_running(agent);

	if (agent->lease.state == LEASE_ACTIVE && run)
		return next_of_work(agent, run);
	if (agent->runner && agent->runner->closed && !link_first(agent->runner))
		return now_of(agent);
	if (agent->lease.state == LEASE_WARM && is_connected(agent))
		return agent->received_at + timer_ms(TIMER_STALE);
	return CLOCK_NEVER;
}

static fallible supervise_fail(struct agent_session *agent, enum lease_event_kind kind,
			       const char *code, const char *message)
{
	struct transition transition = {
		.event = {.kind = kind, .error = code},
		.lost = {RUN_FAILED, code, message},
	};

	return transition_apply(agent, &transition);
}

// Without a run: a runner that closes before it is ready has failed; a warm one is checked when it
// is next needed.
static fallible hung_up(struct agent_session *agent)
{
	struct run *run = agent_first(agent);
	struct transition transition = {
		.event = {.kind = LEASE_UNREADY, .error = agent->runner->why},
	};

	if (agent->lease.state != LEASE_STARTING) {
		link_end(take_ptr(agent->runner));
		return OK;
	}
	if (run && run->state == RUN_QUEUED) {
		transition.run = run;
		transition.before = runs_mark(run);
		if (++run->tries >= RUN_TRIES_MAX || agent->runner->broken)
			runs_set_end(run, &(struct run_end){RUN_FAILED, "readiness_failed",
							    agent->runner->why});
	}
	return transition_apply(agent, &transition);
}

static fallible begin_grace(struct agent_session *agent, struct run *run)
{
	struct err *err;

	run->grace_ms = agents_now(agent->agents) + timer_ms(TIMER_GRACE);
	agent->pinged_at = 0;
	log_event(LOG_INFO, "runner.disconnected", "session", agent->id, "run", run->id, NULL);
	err = persist_agent_run(run);
	if (err)
		run->grace_ms = 0;
	return err;
}

static void dial_again(struct agent_session *agent)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	struct runner_link *link = NULL;
	int fd = -1;
	auto_err err = backend->dial(backend->arg, &local, agent->port, &fd);

	if (!err)
		err = link_open(agent, fd, &link);
	if (err)
		return;
	link_end(agent->runner);
	agent->runner = link;
}

static fallible see_to_connection(struct agent_session *agent, struct run *run, bool *out_did)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	bool closed = !agent->runner || agent->runner->closed;

	*out_did = true;
	if (agent->runner && agent->runner->broken)
		return supervise_fail(agent, LEASE_RUN_FAILED, "runner_protocol_error",
				      agent->runner->why);
	if (closed && !backend->lives(backend->arg, &local, &agent->lease))
		return supervise_fail(agent, LEASE_SICK,
				      run->active || run->seq ? "runner_error_after_activity"
							      : "runner_error_before_activity",
				      "the runner ended without a result");
	if (!run->grace_ms)
		return begin_grace(agent, run);
	if (agents_now(agent->agents) >= run->grace_ms)
		return supervise_fail(agent, LEASE_SICK, "runner_disconnected",
				      "the runner did not come back");
	if (closed && agent->port)
		dial_again(agent);
	// Wait, in small steps while reconnecting.
	if (closed && agent->port && agent->runner && agent->runner->closed)
		err_free(condition_wait(&agent->wake,
					now_of(agent) + timer_ms(TIMER_GRACE) / DIAL_STEPS));
	else
		*out_did = false;
	return OK;
}

static void ping(struct agent_session *agent)
{
	auto_buf message = BUF_INIT(256);

	agent->pinged_at = now_of(agent);
	runner_ping(&message, ++agent->pings);
	link_send(agent->runner, &message);
}

static fallible supervise_watch(struct agent_session *agent, struct run *run, bool *out_did)
{
	int64_t now = now_of(agent);
	int64_t sign = agent->output_at > agent->received_at ? agent->output_at
							     : agent->received_at;

	*out_did = true;
	if (agent->pinged_at && now >= agent->pinged_at + timer_ms(TIMER_PONG))
		return supervise_fail(agent, LEASE_SICK, "runner_ping_timeout",
				      "the runner did not answer a ping");
	if (!run->question[0] && now >= agent->output_at + timer_ms(TIMER_NO_OUTPUT))
		return supervise_fail(agent, LEASE_SICK, "runner_no_output",
				      "the run was silent too long");
	if (now >= stuck_at(agent, run)) {
		agent->loss = LOSS_STUCK;
		return supervise_fail(agent, LEASE_SICK, "stuck",
				      "the run took too long, and its runner sends no heartbeats");
	}
	if (!agent->pinged_at && now >= sign + timer_ms(TIMER_PING)) {
		ping(agent);
		return OK;
	}
	*out_did = false;
	return OK;
}

// A warm runner without heartbeats counts as disconnected: it is connected again when it is needed.
static bool is_stale(const struct agent_session *agent)
{
	return agent->lease.state == LEASE_WARM && is_connected(agent) &&
	       now_of(agent) >= agent->received_at + timer_ms(TIMER_STALE);
}

static fallible watch_idle(struct agent_session *agent, bool *out_did)
{
	if (!agent->runner || (!agent->runner->closed && !is_stale(agent)))
		return OK;
	*out_did = true;
	if (!agent->runner->closed)
		log_event(LOG_INFO, "runner.silent", "session", agent->id, NULL);
	return hung_up(agent);
}

fallible supervise(struct agent_session *agent, bool *out_did)
{
	struct run *run = agent_running(agent);

	if (agent->lease.state != LEASE_ACTIVE || !run)
		return watch_idle(agent, out_did);
	if (run->deadline_ms && agents_now(agent->agents) >= run->deadline_ms) {
		*out_did = true;
		return supervise_fail(agent, LEASE_RUN_FAILED, "timeout", "the run took too long");
	}
	if (agent->loss == LOSS_SANDBOX) {
		*out_did = true;
		TRY(supervise_fail(agent, LEASE_SICK, "sandbox_destroyed",
				   "its sandbox had to be rebuilt"));
		agent->loss = LOSS_NONE;
		return OK;
	}
	return is_connected(agent) ? supervise_watch(agent, run, out_did)
				   : see_to_connection(agent, run, out_did);
}
