// The actor of an agent session: the one task that changes its lease, runs and record. Each turn
// does the first due item of actor_items, which puts evidence before decisions. With nothing due it
// waits for `wake`.
//
// Each item is a transition: event (a pure function), commit, action. If the store refuses the
// commit nothing has changed, and the turn is retried. Client commands are on the stack of the
// client's task, which waits, shielded; the result is durable before the client is told.
#include <stdio.h>
#include <stdlib.h>

#include "agent/link.h"
#include "agent/persist.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/clock.h"
#include "base/log.h"
#include "types/event.h"
#include "types/timers.h"

#define RETRY_MS 250
#define DRAIN_MS 10000 // for the end of the stream: another process may hold the socket open

static struct loop *loop_of(const struct agent_session *agent)
{
	return agent->agents->loop;
}

// ----------------------------------------------------------------------------- commands

static fallible command_answer(struct agent_session *agent, const struct command *command)
{
	struct run *run = agent_running(agent);
	struct run_before before;
	struct err *err;
	auto_buf message = BUF_INIT(AGENT_INPUT_MAX + 4096);
	char question[sizeof(run->question)];

	if (!run || !run->question[0] ||
	    (command->question.at && !str_is(command->question, run->question)))
		return err_new(CONFLICT, "no_question", "the run has no such open question");
	if (!agent->runner || agent->runner->closed || !agent->runner->greeted)
		return err_new(UNAVAILABLE, "runner_away", "the runner is not connected now");
	before = runs_mark(run);
	memcpy(question, run->question, sizeof(question));
	run->question[0] = '\0';
	err = persist_agent_run(run);
	if (err) {
		runs_undo(run, &before);
		memcpy(run->question, question, sizeof(question));
		return err;
	}
	runner_answer(&message, run, str_of(question), command->answer);
	link_send(agent->runner, &message);
	runs_log(run, "answer", (struct str){0});
	agent->output_at = loop_now(agent->agents->loop);
	return OK;
}

static fallible command_interrupt(struct agent_session *agent, const struct command *command)
{
	struct run *running = agent_running(agent), *first = agent_first(agent);
	struct transition transition = {
		.event = {.kind = LEASE_INTERRUPT},
		.lost = {RUN_INTERRUPTED, "user_interrupt", "the run was interrupted"},
	};

	(void)command;
	if (!first)
		return err_new(CONFLICT, "nothing_runs", "no run is under way");
	if (agent->runner && running) {
		auto_buf message = BUF_INIT(4096);

		runner_interrupt(&message, running);
		link_send(agent->runner, &message);
	}
	// A queued run ends with the request; the runs behind it stay queued.
	if (!running) {
		transition.run = first;
		transition.before = runs_mark(first);
		runs_set_end(first, &transition.lost);
	}
	return transition_apply(agent, &transition);
}

static fallible command_delete(struct agent_session *agent, const struct command *command)
{
	(void)command;
	if (!agent_move(agent, AGENT_DELETE))
		return OK; // it was requested before
	struct err *err = persist_agent_commit(agent,
					       &(struct persist_agent_change){.session = true});
	if (err) {
		agent_move(agent, AGENT_DELETE_UNDONE);
		return err;
	}
	log_event(LOG_INFO, "agent_session.deleting", "tenant", agent->tenant, "session", agent->id,
		  NULL);
	event_publish(EVENT_SESSION_ENDS, "tenant", agent->tenant, "session", agent->id, NULL);
	return OK;
}

static fallible command_stop(struct agent_session *agent, const struct command *command)
{
	struct transition transition = {
		.event = {.kind = LEASE_STOP, .reason = command->reason},
		.lost = {RUN_FAILED, "session_stopped", "its runner was stopped"},
	};

	return agent->lease.state == LEASE_NONE ? OK : transition_apply(agent, &transition);
}

// Refused while the session's runner is being stopped, and after a delete was requested:
// directories that the deletion has removed must not be created again.
static fallible command_enter(struct agent_session *agent, const struct command *command)
{
	(void)command;
	if (agent->deletion)
		return agent_absent(str_of(agent->id));
	if (agent->agents->closing || agent->agents->draining)
		return agent_draining();
	if (agent->lease.state == LEASE_QUARANTINED)
		return err_new(UNAVAILABLE, "cleanup_exhausted",
			       "an earlier runner could not be removed");
	if (lease_is_fenced(&agent->lease))
		return err_new(UNAVAILABLE, "runner_stopping", "its runner is being stopped");
	TRY(launch_run(agent, NULL, LAUNCH_WORKSPACE));
	agent->used_ms = agents_now(agent->agents);
	return persist_agent_commit(agent, &(struct persist_agent_change){.session = true});
}

static void command_finish(struct command *command, struct err *err)
{
	command->err = err;
	command->done = true;
	condition_signal(&command->granted);
}

typedef fallible command_verb(struct agent_session *agent, const struct command *command);

static fallible actor_run_command(struct agent_session *agent, bool *out_did)
{
	static command_verb *const verbs[COMMAND_COUNT] = {
		[COMMAND_INTERRUPT] = command_interrupt, [COMMAND_ANSWER] = command_answer,
		[COMMAND_DELETE] = command_delete,	 [COMMAND_ENTER] = command_enter,
		[COMMAND_STOP] = command_stop,
	};
	struct command *command;

	if (link_empty(&agent->commands))
		return OK;
	*out_did = true;
	command = link_of(agent->commands.next, struct command, link);
	link_drop(&command->link);
	command_finish(command, verbs[command->kind](agent, command));
	return OK; // an error is the client's
}

// Why no actor will execute the command: the session or its actor is gone, or has not started.
static fallible command_refuse(const struct agent_session *agent, const struct command *command)
{
	if (agent->agents->closing)
		return agent_draining();
	if (agent_is_listed(agent))
		return agent_starting();
	return command->kind == COMMAND_DELETE ? OK : agent_absent(str_of(agent->id));
}

// Fails all queued commands when the actor ends.
static void actor_dismiss_commands(struct agent_session *agent)
{
	list_each (at, &agent->commands) {
		struct command *command = link_of(at, struct command, link);

		link_drop(at);
		command_finish(command, command_refuse(agent, command));
	}
}

// --------------------------------------------------------------------- after a restart

// The runner has exited, but its last messages may be in the socket: handle them before deciding. A
// message that cannot be stored stays queued for the next try.
static fallible reconcile_drain(struct agent_session *agent)
{
	int64_t until = loop_now(agent->agents->loop) + DRAIN_MS;

	if (!agent->runner) {
		auto_err err = launch_attach(agent);

		if (err)
			return OK; // there is no socket
	}
	while (agent->runner && !(agent->runner->closed && !link_first(agent->runner)) &&
	       loop_now(agent->agents->loop) < until) {
		bool did = false;

		TRY(handler_next(agent, &did));
		if (!did)
			err_free(condition_wait(&agent->wake, until));
	}
	return OK;
}

// A run that the runner accepted while the daemon was away is reported in its first messages: it
// gets the grace period of a lost connection for that.
static void reconcile_give_grace(struct agent_session *agent)
{
	int64_t until = agents_now(agent->agents) + timer_ms(TIMER_GRACE);

	if (agent->runner && agent->lease.state <= LEASE_READY && agent->lease.deadline_ms < until)
		agent->lease.deadline_ms = until;
}

// After a restart of the daemon: compares the lease with the observed processes before anything is
// launched. A matching runner is connected again; its run has a grace period to send a message.
static fallible actor_reconcile(struct agent_session *agent, bool *out_did)
{
	struct run *run = agent_running(agent);
	struct transition transition = {.event = {.kind = LEASE_FOUND}};
	char why[LEASE_ERROR_MAX];

	if (agent->phase != AGENT_ADOPTING)
		return OK;
	*out_did = true;
	attempt_observe(agent, &transition.event, why);
	if (run)
		TRY(runs_log_resume(run));
	if (agent->lease.state == LEASE_ACTIVE && transition.event.seen == LEASE_SEES_NOTHING)
		TRY(reconcile_drain(agent));
	run = agent_running(agent);
	if (run) {
		transition.lost = (struct run_end){RUN_FAILED,
						   run->seq ? "runner_error_after_activity"
							    : "runner_error_before_activity",
						   "its runner was gone when cove came back"};
		// The connection ended with the previous daemon.
		run->grace_ms = agents_now(agent->agents) + timer_ms(TIMER_GRACE);
	}
	TRY(transition_apply(agent, &transition));
	reconcile_give_grace(agent);
	// A failed observation is repeated.
	if (transition.event.seen != LEASE_SEES_FAILED || lease_is_fenced(&agent->lease) ||
	    agent->lease.state == LEASE_NONE)
		agent_move(agent, AGENT_RECONCILED);
	else
		agent->retry_at = loop_now(agent->agents->loop) + timer_ms(TIMER_MAINTAIN_LEAST);
	return OK;
}

// ----------------------------------------------------------------------------- deletion

static fallible remove_begin_stop(struct agent_session *agent)
{
	struct transition transition = {
		.event = {.kind = LEASE_STOP, .reason = LEASE_FOR_SESSION_DELETE},
		.lost = {RUN_FAILED, "session_deleted", "the session was deleted"},
	};

	return transition_apply(agent, &transition);
}

// Tried once: the attempt is committed before it is made.
static fallible remove_force(struct agent_session *agent)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	auto_err err = OK;

	agent_move(agent, AGENT_FORCE);
	err = persist_agent_commit(agent, &(struct persist_agent_change){.session = true});
	if (err) {
		agent_move(agent, AGENT_FORCE_UNDONE);
		return take_ptr(err);
	}
	err = backend->forget(backend->arg, &local, BACKEND_END_SANDBOX);
	log_event(err ? LOG_ERROR : LOG_WARN, "agent_session.sandbox_removed", "session", agent->id,
		  "sandbox", agent->box, "trail", err ? err_trail(err) : NULL, NULL);
	return transition_event(agent, LEASE_FORCE);
}

static bool is_isolated(const struct agent_session *agent)
{
	return agent->route.kind == OWNER_SES;
}

static fallible remove_purge(struct agent_session *agent)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);

	if (!agent->lone)
		TRY(backend->forget(backend->arg, &local,
				    is_isolated(agent) ? BACKEND_END_SANDBOX : BACKEND_END_SESSION),
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

// The delete is already committed; now the lease is brought to none by its own rules and deadlines,
// and only then files and records are removed, in this order. After a crash at any point the next
// daemon continues from the committed delete.
//
// A quarantined lease does not block the deletion for ever: a sandbox without other sessions is
// removed as a whole, once; a shared one never is.
static fallible actor_remove(struct agent_session *agent, bool *out_did)
{
	if (!agent->deletion)
		return OK;
	switch (agent->lease.state) {
	case LEASE_STOP_NEEDED:
	case LEASE_STOPPING:
		return OK; // by its own deadline
	case LEASE_QUARANTINED:
		if (agent->deletion != DELETION_REQUESTED || !is_isolated(agent))
			return OK;
		*out_did = true;
		return remove_force(agent);
	case LEASE_NONE:
		*out_did = true;
		// A session that never launched a runner has none.
		if (agent->deletion == DELETION_VERIFIED || agent->lease.next_generation == 1)
			return remove_purge(agent);
		return remove_begin_stop(agent);
	default:
		*out_did = true;
		return remove_begin_stop(agent);
	}
}

// ------------------------------------------------------------------------------ due items

static fallible actor_take_result(struct agent_session *agent, bool *out_did)
{
	struct transition transition = {
		.event = {.kind = LEASE_STOPPED,
			  .attempt = agent->stopped.attempt,
			  .seen = agent->stopped.seen,
			  .error = agent->stopped.error},
	};

	if (!agent->stopped.attempt[0])
		return OK;
	*out_did = true;
	TRY(transition_apply(agent, &transition));
	agent->stopped.attempt[0] = '\0';
	return OK;
}

static fallible actor_pass_time(struct agent_session *agent, bool *out_did)
{
	int64_t due = lease_deadline(&agent->lease);

	if (!due || agents_now(agent->agents) < due)
		return OK;
	*out_did = true;
	return transition_event(agent, LEASE_TIME);
}

// A user's new run has a quarantined lease checked once more; if it stays quarantined the run
// fails.
static fallible actor_recheck(struct agent_session *agent)
{
	struct run *run;

	agent->recheck = false;
	TRY(transition_event(agent, LEASE_FORCE));
	while (agent->lease.state == LEASE_QUARANTINED && (run = agent_first(agent)))
		TRY(transition_fail_run(
			run, &(struct run_end){RUN_FAILED, "cleanup_exhausted",
					       "an earlier runner could not be removed"}));
	return OK;
}

static fallible actor_want(struct agent_session *agent, bool *out_did)
{
	struct run *run = agent_first(agent);
	struct transition transition = {.event = {.kind = LEASE_WANTED}};
	char why[LEASE_ERROR_MAX];
	enum lease_state state = agent->lease.state;
	uint64_t version = agent->lease_version;

	if (!run || run->state != RUN_QUEUED || agent->deletion || agent->agents->closing ||
	    agent->agents->draining)
		return OK;
	if (state == LEASE_QUARANTINED) {
		*out_did = agent->recheck;
		return agent->recheck ? actor_recheck(agent) : OK;
	}
	if (state == LEASE_READY && agent->runner && agent->runner->greeted)
		return handler_send_run(agent);
	// A connected runner has until its deadline to answer; after a restart a ready one, too.
	if (state == LEASE_ACTIVE || lease_is_fenced(&agent->lease) ||
	    (state <= LEASE_READY && agent->runner) || loop_now(loop_of(agent)) < agent->launch_at)
		return OK;
	*out_did = true;
	attempt_observe(agent, &transition.event, why);
	if (agent->lease_version != version) // a newer decision takes precedence
		return OK;
	return transition_apply(agent, &transition);
}

// -------------------------------------------------------------------------------- the task

typedef fallible actor_item(struct agent_session *agent, bool *out_did);

// In this order: the first that is due is done.
static actor_item *const actor_items[] = {
	actor_reconcile,   // before anything else, after a restart
	actor_take_result, // of a stop attempt
	actor_run_command, // of a client
	handler_next,	   // messages of the runner, then the end of its connection:
	supervise,	   // pings, silence, grace
	actor_pass_time,   // the lease's deadline
	actor_remove,	   // the next step of a deletion
	actor_want,	   // a runner for queued runs
};

static fallible actor_turn(struct agent_session *agent, bool *out_did)
{
	for (size_t i = 0; i < sizeof(actor_items) / sizeof(*actor_items) && !*out_did; i++)
		TRY(actor_items[i](agent, out_did));
	return OK;
}

static void actor_least(int64_t *at, int64_t other)
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
		actor_least(&at, now + due - agents_now(agent->agents));
	if (run && run->state == RUN_QUEUED && agent->launch_at > now)
		actor_least(&at, agent->launch_at);
	return at;
}

static void actor_step(struct agent_session *agent)
{
	int64_t until = CLOCK_NEVER;
	auto_err err = OK;
	bool did = false;

	if (agent->retry_at > loop_now(loop_of(agent))) {
		err = actor_run_command(agent, &did); // a client gets the error at once
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
	if (link_empty(&agent->commands) && !agent->stopped.attempt[0])
		err_free(condition_wait(&agent->wake, until));
}

static void actor_run(void *arg)
{
	struct agent_session *agent = arg;

	task_shield(true);
	while (agent_is_listed(agent) && !agent->agents->closing)
		actor_step(agent);
	launch_disconnect(agent);
	agent->actor = NULL;
	actor_dismiss_commands(agent);
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

fallible actor_ask(struct agent_session *agent, struct command *command)
{
	if (!agent->actor)
		return command_refuse(agent, command);
	condition_init(&command->granted);
	link_add(&agent->commands, &command->link);
	condition_signal(&agent->wake);
	task_shield(true);
	while (!command->done)
		err_free(condition_wait(&command->granted, CLOCK_NEVER));
	task_shield(false);
	return command->err;
}
