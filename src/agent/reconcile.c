// After a restart of the daemon: compares the lease with the observed processes before anything is
// launched. A matching runner is connected again; its run has a grace period to send a message.
#include "agent/link.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/mem.h"
#include "types/timers.h"

#define DRAIN_MS 10000 // for the end of the stream: another process may hold the socket open

// The runner has exited, but its last messages may be in the socket: handle them before deciding. A
// message that cannot be stored stays queued for the next try.
static fallible reconcile_drain(struct agent_session *agent)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	int64_t until = loop_now(agent->agents->loop) + DRAIN_MS;
	int fd = -1;

	if (!agent->talk) {
		auto_err err = backend->attach(backend->arg, &local, &agent->lease, &fd);

		if (!err)
			err = transition_talk(agent, fd);
		if (err)
			return OK; // there is no socket
	}
	while (agent->talk && !(agent->talk->closed && !link_heard(agent->talk)) &&
	       loop_now(agent->agents->loop) < until) {
		bool did = false;

		TRY(handler_word(agent, &did));
		if (!did)
			err_free(condition_wait(&agent->wake, until));
	}
	return OK;
}

// A run that the runner accepted while the daemon was away is reported in its first messages: it
// gets the grace period of a lost connection for that.
static void give_grace(struct agent_session *agent)
{
	int64_t until = agents_now(agent->agents) + timer_ms(TIMER_GRACE);

	if (agent->talk && agent->lease.state <= LEASE_READY && agent->lease.deadline_ms < until)
		agent->lease.deadline_ms = until;
}

fallible reconcile(struct agent_session *agent)
{
	struct run *run = agent_running(agent);
	struct hearing hearing = {.event = {.kind = LEASE_FOUND}};
	auto_free struct backend_view *view = mem_new_of(struct backend_view);

	attempt_look(agent, view);
	hearing.event.seen = backend_judge(view, &agent->lease);
	hearing.event.error = view->failed ? view->why : NULL;
	if (run)
		TRY(runs_log_resume(run));
	if (agent->lease.state == LEASE_ACTIVE && hearing.event.seen == LEASE_SEES_NOTHING)
		TRY(reconcile_drain(agent));
	run = agent_running(agent);
	if (run) {
		hearing.lost = (struct run_end){RUN_FAILED,
						run->seq ? "runner_error_after_activity"
							 : "runner_error_before_activity",
						"its runner was gone when cove came back"};
		// The connection ended with the previous daemon.
		run->grace_ms = agents_now(agent->agents) + timer_ms(TIMER_GRACE);
	}
	TRY(transition_hear(agent, &hearing));
	give_grace(agent);
	// A failed observation is repeated.
	agent->reconciled = !view->failed || lease_is_fenced(&agent->lease) ||
			    agent->lease.state == LEASE_NONE;
	if (!agent->reconciled)
		agent->retry_at = loop_now(agent->agents->loop) + timer_ms(TIMER_MAINTAIN_LEAST);
	return OK;
}
