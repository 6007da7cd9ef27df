// Handles the messages of a runner. Each is checked against the fence: run, run generation,
// connection. A message with a stale triple changes nothing.
//
// An output is in the log before it is acknowledged; a question and a result are committed before.
// The runner repeats unacknowledged messages on the next connection; they are recognised by number.
#include <stdio.h>
#include <stdlib.h>

#include "agent/link.h"
#include "agent/persist.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/log.h"
#include "base/mem.h"

#define KEEP_ALIVE_MS 5000

static void stale(const struct agent_session *agent, const struct runner_message *message)
{
	char connection[24];

	snprintf(connection, sizeof(connection), "%llu", (unsigned long long)message->connection);
	log_event(LOG_WARN, "runner.stale_message", "session", agent->id, "connection", connection,
		  NULL);
}

static void handler_acknowledge(struct agent_session *agent, const struct run *run, uint64_t seq)
{
	auto_buf out = BUF_INIT(512);

	if (!agent->runner || agent->runner->closed)
		return;
	runner_ack(&out, run, seq);
	link_send(agent->runner, &out);
}

// The last messages of an exited runner came over the connection that the lease names.
static bool is_current(const struct agent_session *agent, const struct runner_message *message)
{
	const struct runner_link *link = agent->runner;

	return message->connection == link->connection ||
	       (!link->greeted && link->closed && message->connection == agent->lease.connection);
}

static bool is_fenced_in(const struct agent_session *agent, const struct run *run,
			 const struct runner_message *message)
{
	return run && is_current(agent, message) && str_is(message->run, run->id) &&
	       message->run_generation == run->run_generation;
}

// -------------------------------------------------------------------------------- hello

// An older runner sends no identity: it is accepted by its marks, if it is the only one.
static bool is_known_by_marks(struct agent_session *agent)
{
	struct lease_event event = {0};
	char why[LEASE_ERROR_MAX];

	attempt_observe(agent, &event, why);
	return event.seen == LEASE_SEES_MATCH;
}

static const char *wrong_with(struct agent_session *agent, const struct runner_message *message)
{
	const struct lease *lease = &agent->lease;

	if (message->protocol != RUNNER_PROTOCOL)
		return "the runner speaks another version of the protocol";
	if (message->session.at && !str_is(message->session, agent->id))
		return "the runner is another session's";
	if (!message->instance.at && !message->generation)
		return is_known_by_marks(agent) ? NULL : "the runner tells no identity";
	if (!str_is(message->instance, lease->instance) || message->generation != lease->generation)
		return "the runner is not the leased one";
	return NULL;
}

static fallible handler_take_run(struct agent_session *agent, struct run *run)
{
	struct transition transition = {
		.event = {.kind = LEASE_ACCEPTED,
			  .run = run->id,
			  .connection = agent->runner->connection},
		.run = run,
		.before = runs_mark(run),
	};

	runs_set_taken(run);
	TRY(transition_apply(agent, &transition));
	runs_log_state(run);
	agent_note_alive(agent);
	return OK;
}

// The runner is connected again: its run continues.
static fallible handler_resume(struct agent_session *agent, const struct runner_message *message)
{
	struct run *run = agent_running(agent);

	if (!run || !str_is(message->run, run->id)) {
		struct transition transition = {
			.event = {.kind = LEASE_RUN_FAILED, .error = "the runner lost its run"},
			.lost = {RUN_FAILED, "runner_lost_run", "the runner does not know the run"},
		};

		return transition_apply(agent, &transition);
	}
	if (run->grace_ms) {
		run->grace_ms = 0;
		TRY(persist_agent_run(run));
	}
	agent->lease.connection = agent->runner->connection;
	agent_note_alive(agent);
	return OK;
}

static fallible handler_hello(struct agent_session *agent, const struct runner_message *message)
{
	struct runner_link *link = agent->runner;
	struct run *first = agent_first(agent);
	struct transition transition = {
		.event = {.kind = LEASE_HEALTHY, .connection = link->connection},
	};
	const char *wrong;
	bool has_taken = first && first->state == RUN_QUEUED && str_is(message->run, first->id);

	if (message->connection != link->connection) {
		stale(agent, message);
		return OK;
	}
	wrong = wrong_with(agent, message);
	if (wrong) {
		link->closed = link->broken = true;
		snprintf(link->why, sizeof(link->why), "%s", wrong);
		return OK;
	}
	agent->port = message->port;
	if (agent->lease.state == LEASE_STARTING)
		TRY(transition_apply(agent, &transition));
	if (agent->runner != link) // too late: the connection is closed and its messages freed
		return OK;
	link->greeted = true;
	if (agent->lease.state == LEASE_ACTIVE)
		return handler_resume(agent, message);
	if (agent->lease.state == LEASE_READY && has_taken) {
		first->run_generation = agent->lease.run_generation;
		return handler_take_run(agent, first);
	}
	return OK;
}

// --------------------------------------------------------------------------------- runs

static fallible handler_accepted(struct agent_session *agent, const struct runner_message *message)
{
	struct run *run = agent_first(agent);

	if (!run || run->state != RUN_QUEUED || agent->lease.state != LEASE_READY ||
	    !is_fenced_in(agent, run, message)) {
		stale(agent, message);
		return OK;
	}
	return handler_take_run(agent, run);
}

static fallible handler_refused(struct agent_session *agent, const struct runner_message *message)
{
	struct run *run = agent_first(agent);

	if (!run || run->state != RUN_QUEUED || !is_fenced_in(agent, run, message)) {
		stale(agent, message);
		return OK;
	}
	TRY(transition_fail_run(run, &(struct run_end){RUN_FAILED, "runner_refused",
						       "the runner did not take the run"}));
	agent->sent_on = 0;
	return OK;
}

// Copies a member of the message, if it is there.
static void handler_copy(struct json_out *out, const struct runner_message *message,
			 const char *key)
{
	const struct json *value = json_get(message->tree, key);

	if (!value)
		return;
	json_key(out, key);
	json_add_value(out, value);
}

// An output that cannot be stored now is not acknowledged: the runner repeats it.
static fallible handler_output(struct agent_session *agent, struct run *run,
			       const struct runner_message *message)
{
	const struct backend *backend = agent->agents->backend;
	auto_buf more = BUF_INIT(RUNNER_LINE_MAX * 2);
	struct json_out out = json_to(&more);
	int64_t now = loop_now(agent->agents->loop);

	json_put_int(&out, "seq", (int64_t)message->seq);
	handler_copy(&out, message, "stream");
	handler_copy(&out, message, "data");
	TRY(runs_log_line(run, "output", buf_view(&more)), "keep an output");
	run->seq = message->seq;
	run->active = true;
	handler_acknowledge(agent, run, message->seq);
	if (now - agent->alive_at >= KEEP_ALIVE_MS) {
		struct backend_site local = agent_local(agent);

		agent->alive_at = now;
		backend->keep_alive(backend->arg, &local);
	}
	return OK;
}

static fallible handler_question(struct agent_session *agent, struct run *run,
				 const struct runner_message *message)
{
	auto_buf asked = BUF_INIT(RUNNER_LINE_MAX * 2), more = BUF_INIT(RUNNER_LINE_MAX * 2);
	struct json_out out = json_to(&asked);
	struct err *err;

	json_begin(&out, '{');
	json_put_str(&out, "id", message->question);
	handler_copy(&out, message, "text");
	handler_copy(&out, message, "data");
	json_end(&out, '}');
	if (!buf_ok(&asked))
		return OK;
	snprintf(run->question, sizeof(run->question), STR_FMT, STR_ARG(message->question));
	free(run->asked);
	run->asked = buf_take(&asked);
	err = persist_agent_run(run);
	if (err) {
		run->question[0] = '\0';
		return err;
	}
	buf_fmt(&more, "\"seq\":%llu,\"question\":%s", (unsigned long long)message->seq,
		run->asked);
	runs_log(run, "question", buf_view(&more));
	run->seq = message->seq;
	handler_acknowledge(agent, run, message->seq);
	condition_signal(&agent->changed);
	return OK;
}

// The runner's error code, if it is a machine-readable word.
static void take_code(const struct json *error, char *room, size_t size)
{
	struct str code = {0};
	auto_err err = json_str(json_get(error, "code"), "code", &code);

	if (err || !code.len || code.len >= size)
		return;
	for (size_t i = 0; i < code.len; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", code.at[i]))
			return;
	memcpy(room, code.at, code.len);
	room[code.len] = '\0';
}

static void handler_take_result(struct run *run, const struct runner_message *message)
{
	const struct json *error = json_get(message->tree, "error");
	struct run_end end = {RUN_COMPLETED, NULL, NULL};
	char code[40] = "runner_failed", shown[LEASE_ERROR_MAX] = "the run failed";
	struct str text = {0};
	auto_buf result = BUF_INIT(AGENT_INPUT_MAX * 2);
	struct json_out out = json_to(&result);

	json_begin(&out, '{');
	json_put_str(&out, "status", message->status);
	handler_copy(&out, message, "output");
	handler_copy(&out, message, "error");
	json_end(&out, '}');
	if (!str_is(message->status, "completed")) {
		bool cut = str_is(message->status, "interrupted");

		if (error && json_type(error) == JSON_OBJECT) {
			take_code(error, code, sizeof(code));
			err_free(json_str(json_get(error, "message"), "message", &text));
		}
		if (text.at)
			snprintf(shown, sizeof(shown), STR_FMT, STR_ARG(text));
		end = (struct run_end){cut ? RUN_INTERRUPTED : RUN_FAILED,
				       cut ? "runner_interrupted" : code, shown};
	}
	free((char *)run->result.at);
	run->result = (struct str){0};
	if (buf_ok(&result)) {
		run->result.len = result.len;
		run->result.at = buf_take(&result);
	}
	runs_set_end(run, &end);
}

static fallible handler_result(struct agent_session *agent, struct run *run,
			       const struct runner_message *message)
{
	struct transition transition = {
		.event = {.kind = LEASE_COMPLETED},
		.run = run,
		.before = runs_mark(run),
	};
	auto_buf out = BUF_INIT(512);

	if (str_is(message->status, "failed"))
		transition.event.kind = LEASE_RUN_FAILED;
	else if (!str_is(message->status, "completed"))
		transition.event.kind = LEASE_RUN_CUT;
	handler_take_result(run, message);
	transition.event.error = run->message;
	runner_ack(&out, run, message->seq);
	agent->used_ms = agents_now(agent->agents);
	TRY(transition_apply(agent, &transition));
	if (agent->runner && !agent->runner->closed)
		link_send(agent->runner, &out);
	agent->sent_on = 0;
	return OK;
}

static fallible handler_of_run(struct agent_session *agent, const struct runner_message *message)
{
	struct run *run = agent_running(agent);

	if (!is_fenced_in(agent, run, message)) {
		struct run past = {0};

		stale(agent, message);
		// The end of a run that is not listed is committed: acknowledged, so that the
		// message is not repeated. A queued run may already be with a runner whose
		// acceptance was lost with an earlier daemon: its messages are needed, and
		// repeated.
		if (message->run.len == LEASE_RUN_LEN && !runs_find(agent, message->run)) {
			memcpy(past.id, message->run.at, LEASE_RUN_LEN);
			handler_acknowledge(agent, &past, message->seq);
		}
		return OK;
	}
	agent->output_at = loop_now(agent->agents->loop);
	if (message->seq <= run->seq) {
		handler_acknowledge(agent, run, message->seq);
		return OK;
	}
	if (message->kind == RUNNER_OUTPUT)
		return handler_output(agent, run, message);
	return message->kind == RUNNER_QUESTION ? handler_question(agent, run, message)
						: handler_result(agent, run, message);
}

static fallible handler_handle(struct agent_session *agent, const struct runner_message *message)
{
	agent->received_at = loop_now(agent->agents->loop);
	switch (message->kind) {
	case RUNNER_HELLO:
		return handler_hello(agent, message);
	case RUNNER_ACCEPTED:
		return handler_accepted(agent, message);
	case RUNNER_REFUSED:
		return handler_refused(agent, message);
	case RUNNER_PONG:
		if (message->number == agent->pings)
			agent->pinged_at = 0;
		return OK;
	case RUNNER_HEARTBEAT:
		if (message->connection && !is_current(agent, message))
			stale(agent, message);
		else
			agent->beat_at = agent->received_at;
		return OK;
	default:
		return handler_of_run(agent, message);
	}
}

fallible handler_next(struct agent_session *agent, bool *out_did)
{
	struct runner_link *link = agent->runner;
	struct runner_message *message = link ? link_first(link) : NULL;

	if (!message)
		return OK;
	*out_did = true;
	TRY(handler_handle(agent, message), "handle a message of a runner");
	if (agent->runner == link) // otherwise it was freed with the connection
		link_pop(link);
	return OK;
}

fallible handler_send_run(struct agent_session *agent)
{
	struct run *run = agent_first(agent);
	auto_buf message = BUF_INIT(RUNNER_LINE_MAX * 2);

	if (agent->sent_on == agent->runner->connection)
		return OK;
	agent->sent_on = agent->runner->connection;
	run->run_generation = agent->lease.run_generation;
	runner_run(&message, run, agent->runner->connection);
	if (buf_ok(&message))
		link_send(agent->runner, &message);
	return OK;
}
