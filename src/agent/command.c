// Client commands to an actor: interrupt, answer, delete, stop, enter. The client's task queues a
// command on its stack and waits, shielded; the actor executes it. The result is durable before the
// client is told.
#include <stdio.h>

#include "agent/link.h"
#include "agent/persist.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/clock.h"
#include "base/log.h"
#include "types/event.h"

static fallible agent_command_answer(struct agent_session *agent, struct command *command)
{
	struct run *run = agent_running(agent);
	struct run_before before;
	struct err *err;
	auto_buf message = BUF_INIT(AGENT_INPUT_MAX + 4096);
	char question[sizeof(run->question)];

	if (!run || !run->question[0] ||
	    (command->question.at && !str_is(command->question, run->question)))
		return err_new(CONFLICT, "no_question", "the run has no such open question");
	if (!agent->talk || agent->talk->closed || !agent->talk->greeted)
		return err_new(UNAVAILABLE, "runner_away", "the runner is not connected now");
	before = runs_mark(run);
	memcpy(question, run->question, sizeof(question));
	run->question[0] = '\0';
	err = persist_agent_commit(agent,
				   &(struct persist_agent_change){.runs = {run}, .run_count = 1});
	if (err) {
		runs_undo(run, &before);
		memcpy(run->question, question, sizeof(question));
		return err;
	}
	runner_answer(&message, run, str_of(question), command->answer);
	link_say(agent->talk, &message);
	runs_log(run, "answer", (struct str){0});
	agent->output_at = loop_now(agent->agents->loop);
	return OK;
}

static fallible agent_command_interrupt(struct agent_session *agent)
{
	struct run *running = agent_running(agent), *first = agent_first(agent);
	struct hearing hearing = {
		.event = {.kind = LEASE_INTERRUPT},
		.lost = {RUN_INTERRUPTED, "user_interrupt", "the run was interrupted"},
	};

	if (!first)
		return err_new(CONFLICT, "nothing_runs", "no run is under way");
	if (agent->talk && running) {
		auto_buf message = BUF_INIT(4096);

		runner_interrupt(&message, running);
		link_say(agent->talk, &message);
	}
	// A queued run ends with the request; the runs behind it stay queued.
	if (!running) {
		hearing.run = first;
		hearing.before = runs_mark(first);
		runs_set_end(first, &hearing.lost);
	}
	return transition_hear(agent, &hearing);
}

static fallible intend_deletion(struct agent_session *agent)
{
	struct err *err;

	if (agent->deleting)
		return OK;
	agent->deleting = true;
	err = persist_agent_commit(agent, &(struct persist_agent_change){.session = true});
	if (err) {
		agent->deleting = false;
		return err;
	}
	log_event(LOG_INFO, "agent_session.deleting", "tenant", agent->tenant, "session", agent->id,
		  NULL);
	event_publish(EVENT_SESSION_ENDS, "tenant", agent->tenant, "session", agent->id, NULL);
	return OK;
}

static fallible stop_for(struct agent_session *agent, enum lease_reason reason)
{
	struct hearing hearing = {
		.event = {.kind = LEASE_STOP, .reason = reason},
		.lost = {RUN_FAILED, "session_stopped", "its runner was stopped"},
	};

	return agent->lease.state == LEASE_NONE ? OK : transition_hear(agent, &hearing);
}

// Refused while the session's runner is being stopped, and after a delete was requested:
// directories that the deletion has removed must not be created again.
static fallible agent_command_enter(struct agent_session *agent)
{
	if (agent->deleting)
		return agent_absent(str_of(agent->id));
	if (agent->agents->closing || agent->agents->draining)
		return agent_draining();
	if (agent->lease.state == LEASE_QUARANTINED)
		return err_new(UNAVAILABLE, "cleanup_exhausted",
			       "an earlier runner could not be removed");
	if (lease_is_fenced(&agent->lease))
		return err_new(UNAVAILABLE, "runner_stopping", "its runner is being stopped");
	TRY(transition_settle(agent, NULL));
	agent->used_ms = agents_now(agent->agents);
	return persist_agent_commit(agent, &(struct persist_agent_change){.session = true});
}

void agent_command_grant(struct agent_session *agent, bool *out_did)
{
	struct command *command;

	if (link_empty(&agent->commands))
		return;
	*out_did = true;
	command = link_of(agent->commands.next, struct command, link);
	link_drop(&command->link);
	switch (command->kind) {
	case COMMAND_INTERRUPT:
		command->err = agent_command_interrupt(agent);
		break;
	case COMMAND_ANSWER:
		command->err = agent_command_answer(agent, command);
		break;
	case COMMAND_DELETE:
		command->err = intend_deletion(agent);
		break;
	case COMMAND_ENTER:
		command->err = agent_command_enter(agent);
		break;
	case COMMAND_STOP:
		command->err = stop_for(agent, command->reason);
		break;
	}
	command->done = true;
	condition_signal(&command->granted);
}

// Why no actor will execute the command: the session or its actor is gone, or has not started.
static fallible ungranted(const struct agent_session *agent, const struct command *command)
{
	if (agent->agents->closing)
		return agent_draining();
	if (agent->listed)
		return agent_starting();
	return command->kind == COMMAND_DELETE ? OK : agent_absent(str_of(agent->id));
}

// Fails all queued commands when the actor ends.
void agent_command_dismiss(struct agent_session *agent)
{
	list_each (at, &agent->commands) {
		struct command *command = link_of(at, struct command, link);

		link_drop(at);
		command->err = ungranted(agent, command);
		command->done = true;
		condition_signal(&command->granted);
	}
}

fallible agent_command_ask(struct agent_session *agent, struct command *command)
{
	if (!agent->actor)
		return ungranted(agent, command);
	condition_init(&command->granted);
	link_add(&agent->commands, &command->link);
	condition_signal(&agent->wake);
	task_shield(true);
	while (!command->done)
		err_free(condition_wait(&command->granted, CLOCK_NEVER));
	task_shield(false);
	return command->err;
}
