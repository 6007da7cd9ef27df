// What a runner says, held against the fence: the run, its generation, the connection. A word that
// carries an old triple changes nothing, whoever sends it.
//
// An output is on the log before it is acknowledged, a question and a result are committed before;
// what is not acknowledged is said again over the next connection, and known by its number.
#include <stdio.h>
#include <stdlib.h>

#include "agent/link.h"
#include "agent/persist.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/log.h"
#include "base/mem.h"

#define KEEP_ALIVE_MS 5000

static void stale(const struct agent_session *agent, const struct runner *words)
{
	char connection[24];

	snprintf(connection, sizeof(connection), "%llu", (unsigned long long)words->connection);
	log_event(LOG_WARN, "runner.stale_message", "session", agent->id, "connection", connection,
		  NULL);
}

static void handler_acknowledge(struct agent_session *agent, const struct run *run, uint64_t seq)
{
	auto_buf out = BUF_INIT(512);

	if (!agent->talk || agent->talk->closed)
		return;
	runner_ack(&out, run, seq);
	link_say(agent->talk, &out);
}

// The last words of a runner that is gone came over the connection that the lease knows.
static bool is_current(const struct agent_session *agent, const struct runner *words)
{
	const struct link_to *talk = agent->talk;

	return words->connection == talk->connection ||
	       (!talk->greeted && talk->closed && words->connection == agent->lease.connection);
}

static bool is_fenced_in(const struct agent_session *agent, const struct run *run,
			 const struct runner *words)
{
	return run && is_current(agent, words) && str_is(words->run, run->id) &&
	       words->run_generation == run->run_generation;
}

// -------------------------------------------------------------------------------- hello

// An older runner tells no identity: it is known by its marks, if it is alone.
static bool is_known_by_marks(struct agent_session *agent)
{
	auto_free struct backend_view *view = mem_new_of(struct backend_view);

	attempt_look(agent, view);
	return backend_judge(view, &agent->lease) == LEASE_SEES_MATCH;
}

static const char *wrong_with(struct agent_session *agent, const struct runner *words)
{
	const struct lease *lease = &agent->lease;

	if (words->protocol != RUNNER_PROTOCOL)
		return "the runner speaks another version of the protocol";
	if (words->session.at && !str_is(words->session, agent->id))
		return "the runner is another session's";
	if (!words->instance.at && !words->generation)
		return is_known_by_marks(agent) ? NULL : "the runner tells no identity";
	if (!str_is(words->instance, lease->instance) || words->generation != lease->generation)
		return "the runner is not the leased one";
	return NULL;
}

static fallible handler_take_run(struct agent_session *agent, struct run *run)
{
	struct hearing hearing = {
		.event = {.kind = LEASE_ACCEPTED,
			  .run = run->id,
			  .connection = agent->talk->connection},
		.run = run,
		.before = runs_mark(run),
	};

	runs_set_taken(run);
	TRY(keeper_hear(agent, &hearing));
	runs_log_state(run);
	agent_note_alive(agent);
	return OK;
}

// It is back: what it works on is under way again.
static fallible handler_resume(struct agent_session *agent, const struct runner *words)
{
	struct run *run = agent_running(agent);

	if (!run || !str_is(words->run, run->id)) {
		struct hearing hearing = {
			.event = {.kind = LEASE_RUN_FAILED, .error = "the runner lost its run"},
			.lost = {RUN_FAILED, "runner_lost_run", "the runner does not know the run"},
		};

		return keeper_hear(agent, &hearing);
	}
	if (run->grace_ms) {
		run->grace_ms = 0;
		TRY(persist_agent_commit(
			agent, &(struct persist_agent_change){.runs = {run}, .run_count = 1}));
	}
	agent->lease.connection = agent->talk->connection;
	agent_note_alive(agent);
	return OK;
}

static fallible handler_hello(struct agent_session *agent, const struct runner *words)
{
	struct link_to *talk = agent->talk;
	struct run *first = agent_first(agent);
	struct hearing hearing = {
		.event = {.kind = LEASE_HEALTHY, .connection = talk->connection},
	};
	const char *wrong;
	bool has_taken = first && first->state == RUN_QUEUED && str_is(words->run, first->id);

	if (words->connection != talk->connection) {
		stale(agent, words);
		return OK;
	}
	wrong = wrong_with(agent, words);
	if (wrong) {
		talk->closed = talk->broken = true;
		snprintf(talk->why, sizeof(talk->why), "%s", wrong);
		return OK;
	}
	agent->port = words->port;
	if (agent->lease.state == LEASE_STARTING)
		TRY(keeper_hear(agent, &hearing));
	if (agent->talk != talk) // it came too late: the dialogue is gone, and its words with it
		return OK;
	talk->greeted = true;
	if (agent->lease.state == LEASE_ACTIVE)
		return handler_resume(agent, words);
	if (agent->lease.state == LEASE_READY && has_taken) {
		first->run_generation = agent->lease.run_generation;
		return handler_take_run(agent, first);
	}
	return OK;
}

// --------------------------------------------------------------------------------- runs

static fallible handler_accepted(struct agent_session *agent, const struct runner *words)
{
	struct run *run = agent_first(agent);

	if (!run || run->state != RUN_QUEUED || agent->lease.state != LEASE_READY ||
	    !is_fenced_in(agent, run, words)) {
		stale(agent, words);
		return OK;
	}
	return handler_take_run(agent, run);
}

static fallible handler_refused(struct agent_session *agent, const struct runner *words)
{
	struct run *run = agent_first(agent);
	struct run_before before;
	struct err *err;

	if (!run || run->state != RUN_QUEUED || !is_fenced_in(agent, run, words)) {
		stale(agent, words);
		return OK;
	}
	before = runs_mark(run);
	runs_set_end(run, &(struct run_end){RUN_FAILED, "runner_refused",
					    "the runner did not take the run"});
	err = persist_agent_commit(agent,
				   &(struct persist_agent_change){.runs = {run}, .run_count = 1});
	if (err) {
		runs_undo(run, &before);
		return err;
	}
	runs_log_end(run);
	runs_unlist(run);
	agent->sent_on = 0;
	condition_signal(&agent->changed);
	return OK;
}

// Copies a member of the word, if it has it.
static void handler_copy(struct json_out *out, const struct runner *words, const char *key)
{
	const struct json *value = json_get(words->tree, key);

	if (!value)
		return;
	json_key(out, key);
	json_add_value(out, value);
}

// What cannot be kept now is not acknowledged: it is heard again, until it can.
static fallible handler_output(struct agent_session *agent, struct run *run,
			       const struct runner *words)
{
	const struct backend *backend = agent->agents->backend;
	auto_buf more = BUF_INIT(RUNNER_LINE_MAX * 2);
	struct json_out out = json_to(&more);
	int64_t now = loop_now(agent->agents->loop);

	json_put_int(&out, "seq", (int64_t)words->seq);
	handler_copy(&out, words, "stream");
	handler_copy(&out, words, "data");
	TRY(runs_log_line(run, "output", buf_view(&more)), "keep an output");
	run->seq = words->seq;
	run->active = true;
	handler_acknowledge(agent, run, words->seq);
	if (now - agent->alive_at >= KEEP_ALIVE_MS) {
		struct backend_site local = agent_local(agent);

		agent->alive_at = now;
		backend->keep_alive(backend->arg, &local);
	}
	return OK;
}

static fallible handler_question(struct agent_session *agent, struct run *run,
				 const struct runner *words)
{
	auto_buf asked = BUF_INIT(RUNNER_LINE_MAX * 2), more = BUF_INIT(RUNNER_LINE_MAX * 2);
	struct json_out out = json_to(&asked);
	struct err *err;

	json_begin(&out, '{');
	json_put_str(&out, "id", words->question);
	handler_copy(&out, words, "text");
	handler_copy(&out, words, "data");
	json_end(&out, '}');
	if (!buf_ok(&asked))
		return OK;
	snprintf(run->question, sizeof(run->question), STR_FMT, STR_ARG(words->question));
	free(run->asked);
	run->asked = buf_take(&asked);
	err = persist_agent_commit(agent,
				   &(struct persist_agent_change){.runs = {run}, .run_count = 1});
	if (err) {
		run->question[0] = '\0';
		return err;
	}
	buf_fmt(&more, "\"seq\":%llu,\"question\":%s", (unsigned long long)words->seq, run->asked);
	runs_log(run, "question", buf_view(&more));
	run->seq = words->seq;
	handler_acknowledge(agent, run, words->seq);
	condition_signal(&agent->changed);
	return OK;
}

// The runner's own word for a failure, if it is one that a program can read.
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

static void handler_take_result(struct run *run, const struct runner *words)
{
	const struct json *error = json_get(words->tree, "error");
	struct run_end end = {RUN_COMPLETED, NULL, NULL};
	char code[40] = "runner_failed", message[LEASE_ERROR_MAX] = "the run failed";
	struct str text = {0};
	auto_buf result = BUF_INIT(AGENT_INPUT_MAX * 2);
	struct json_out out = json_to(&result);

	json_begin(&out, '{');
	json_put_str(&out, "status", words->status);
	handler_copy(&out, words, "output");
	handler_copy(&out, words, "error");
	json_end(&out, '}');
	if (!str_is(words->status, "completed")) {
		bool cut = str_is(words->status, "interrupted");

		if (error && json_type(error) == JSON_OBJECT) {
			take_code(error, code, sizeof(code));
			err_free(json_str(json_get(error, "message"), "message", &text));
		}
		if (text.at)
			snprintf(message, sizeof(message), STR_FMT, STR_ARG(text));
		end = (struct run_end){cut ? RUN_INTERRUPTED : RUN_FAILED,
				       cut ? "runner_interrupted" : code, message};
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
			       const struct runner *words)
{
	struct hearing hearing = {
		.event = {.kind = LEASE_COMPLETED},
		.run = run,
		.before = runs_mark(run),
	};
	auto_buf out = BUF_INIT(512);

	if (str_is(words->status, "failed"))
		hearing.event.kind = LEASE_RUN_FAILED;
	else if (!str_is(words->status, "completed"))
		hearing.event.kind = LEASE_RUN_CUT;
	handler_take_result(run, words);
	hearing.event.error = run->message;
	runner_ack(&out, run, words->seq);
	agent->used_ms = agents_now(agent->agents);
	TRY(keeper_hear(agent, &hearing));
	if (agent->talk && !agent->talk->closed)
		link_say(agent->talk, &out);
	agent->sent_on = 0;
	return OK;
}

// Of a run whose end is settled. One that waits may have been taken already, by a runner whose
// answer died with an earlier daemon: what it says of that run is needed, and said again.
static bool is_past(const struct agent_session *agent, struct str id)
{
	list_each (at, &agent->runs)
		if (str_is(id, link_of(at, struct run, link)->id))
			return false;
	return id.len == LEASE_RUN_LEN;
}

static fallible handler_of_run(struct agent_session *agent, const struct runner *words)
{
	struct run *run = agent_running(agent);

	if (!is_fenced_in(agent, run, words)) {
		struct run past = {0};

		stale(agent, words);
		if (is_past(agent, words->run)) { // then it need not be said again
			memcpy(past.id, words->run.at, LEASE_RUN_LEN);
			handler_acknowledge(agent, &past, words->seq);
		}
		return OK;
	}
	agent->output_at = loop_now(agent->agents->loop);
	if (words->seq <= run->seq) {
		handler_acknowledge(agent, run, words->seq);
		return OK;
	}
	if (words->kind == WORDS_OUTPUT)
		return handler_output(agent, run, words);
	return words->kind == WORDS_QUESTION ? handler_question(agent, run, words)
					     : handler_result(agent, run, words);
}

static fallible handler_handle(struct agent_session *agent, const struct runner *words)
{
	agent->heard_at = loop_now(agent->agents->loop);
	switch (words->kind) {
	case WORDS_HELLO:
		return handler_hello(agent, words);
	case WORDS_ACCEPTED:
		return handler_accepted(agent, words);
	case WORDS_REFUSED:
		return handler_refused(agent, words);
	case WORDS_PONG:
		if (words->number == agent->pings)
			agent->pinged_at = 0;
		return OK;
	case WORDS_HEARTBEAT:
		if (words->connection && !is_current(agent, words))
			stale(agent, words);
		else
			agent->beat_at = agent->heard_at;
		return OK;
	default:
		return handler_of_run(agent, words);
	}
}

fallible handler_word(struct agent_session *agent, bool *out_did)
{
	struct link_to *talk = agent->talk;
	struct runner *words = talk ? link_heard(talk) : NULL;

	if (!words)
		return OK;
	*out_did = true;
	TRY(handler_handle(agent, words), "hear a runner");
	if (agent->talk == talk) // else it went with its words
		link_done(talk);
	return OK;
}

fallible handler_send_run(struct agent_session *agent)
{
	struct run *run = agent_first(agent);
	auto_buf words = BUF_INIT(RUNNER_LINE_MAX * 2);

	if (agent->sent_on == agent->talk->connection)
		return OK;
	agent->sent_on = agent->talk->connection;
	run->run_generation = agent->lease.run_generation;
	runner_run(&words, run, agent->talk->connection);
	if (buf_ok(&words))
		link_say(agent->talk, &words);
	return OK;
}
