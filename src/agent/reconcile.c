// After a restart: what the lease says is held against what lives, before anything is launched. A
// runner that matches is talked to again; its run has a grace in which it must be heard of.
#include "agent/link.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/mem.h"
#include "types/timers.h"

#define DRAIN_WORDS_MS 10000 // for the end of the dialogue, which another process may hold open

// The runner is gone, but its last words may lie in its dialogue: evidence comes before judgement.
// A word that cannot be kept now is heard at the next try: it stays where it is until then.
static fallible hear_out(struct agent_session *agent)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	int64_t until = loop_now(agent->agents->loop) + DRAIN_WORDS_MS;
	int fd = -1;

	if (!agent->talk) {
		auto_err err = backend->attach(backend->arg, &local, &agent->lease, &fd);

		if (!err)
			err = keeper_talk(agent, fd);
		if (err)
			return OK; // it has left none
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

// What the runner took while nobody could write it down, it tells in its first words: it has the
// grace of a lost connection to say them, whatever time has passed while no daemon lived.
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
		TRY(hear_out(agent));
	run = agent_running(agent);
	if (run) {
		hearing.lost = (struct run_end){RUN_FAILED,
						run->seq ? "runner_error_after_activity"
							 : "runner_error_before_activity",
						"its runner was gone when cove came back"};
		// The connection is lost with the daemon that had it.
		run->grace_ms = agents_now(agent->agents) + timer_ms(TIMER_GRACE);
	}
	TRY(keeper_hear(agent, &hearing));
	give_grace(agent);
	// What could not be looked at is looked at again.
	agent->reconciled = !view->failed || lease_is_fenced(&agent->lease) ||
			    agent->lease.state == LEASE_NONE;
	if (!agent->reconciled)
		agent->retry_at = loop_now(agent->agents->loop) + timer_ms(TIMER_MAINTAIN_LEAST);
	return OK;
}
