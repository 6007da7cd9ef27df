// What a runner says, held against the fence: the run, its generation, the connection. A word that
// carries an old triple changes nothing, whoever sends it.
//
// An output is on the log before it is acknowledged, a question and a result are committed before;
// what is not acknowledged is said again over the next connection, and known by its number.
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "conv/book.h"
#include "conv/inner.h"
#include "conv/link.h"
#include "conv/runs.h"

#define KEEP_ALIVE_MS 5000

static void stale(const struct conv *conv, const struct words *words)
{
	char connection[24];

	snprintf(connection, sizeof(connection), "%llu", (unsigned long long)words->connection);
	log_event(LOG_WARN, "runner.stale_word", "session", conv->id, "connection", connection,
		  NULL);
}

static void hear_acknowledge(struct conv *conv, const struct run *run, uint64_t seq)
{
	auto_buf out = BUF_INIT(512);

	if (!conv->talk || conv->talk->closed)
		return;
	words_ack(&out, run, seq);
	link_say(conv->talk, &out);
}

// The last words of a runner that is gone came over the connection that the lease knows.
static bool is_current(const struct conv *conv, const struct words *words)
{
	const struct link_to *talk = conv->talk;

	return words->connection == talk->connection ||
	       (!talk->greeted && talk->closed && words->connection == conv->lease.connection);
}

static bool is_fenced_in(const struct conv *conv, const struct run *run, const struct words *words)
{
	return run && is_current(conv, words) && str_is(words->run, run->id) &&
	       words->run_generation == run->run_generation;
}

// -------------------------------------------------------------------------------- hello

// An older runner tells no identity: it is known by its marks, if it is alone.
static bool is_known_by_marks(struct conv *conv)
{
	auto_free struct seam_view *view = mem_new_of(struct seam_view);

	attempt_look(conv, view);
	return seam_judge(view, &conv->lease) == LEASE_SEES_MATCH;
}

static const char *wrong_with(struct conv *conv, const struct words *words)
{
	const struct lease *lease = &conv->lease;

	if (words->protocol != WORDS_PROTOCOL)
		return "the runner speaks another version of the protocol";
	if (words->session.at && !str_is(words->session, conv->id))
		return "the runner is another session's";
	if (!words->instance.at && !words->generation)
		return is_known_by_marks(conv) ? NULL : "the runner tells no identity";
	if (!str_is(words->instance, lease->instance) || words->generation != lease->generation)
		return "the runner is not the leased one";
	return NULL;
}

static fallible hear_take_run(struct conv *conv, struct run *run)
{
	struct hearing hearing = {
		.event = {.kind = LEASE_ACCEPTED,
			  .run = run->id,
			  .connection = conv->talk->connection},
		.run = run,
		.before = runs_mark(run),
	};

	runs_set_taken(run);
	TRY(keeper_hear(conv, &hearing));
	runs_log_state(run);
	conv_note_alive(conv);
	return OK;
}

// It is back: what it works on is under way again.
static fallible hear_resume(struct conv *conv, const struct words *words)
{
	struct run *run = conv_running(conv);

	if (!run || !str_is(words->run, run->id)) {
		struct hearing hearing = {
			.event = {.kind = LEASE_RUN_FAILED, .error = "the runner lost its run"},
			.lost = {RUN_FAILED, "runner_lost_run", "the runner does not know the run"},
		};

		return keeper_hear(conv, &hearing);
	}
	if (run->grace_ms) {
		run->grace_ms = 0;
		TRY(book_commit(conv, &(struct book_change){.runs = {run}, .run_count = 1}));
	}
	conv->lease.connection = conv->talk->connection;
	conv_note_alive(conv);
	return OK;
}

static fallible hear_hello(struct conv *conv, const struct words *words)
{
	struct link_to *talk = conv->talk;
	struct run *first = conv_first(conv);
	struct hearing hearing = {
		.event = {.kind = LEASE_HEALTHY, .connection = talk->connection},
	};
	const char *wrong;
	bool has_taken = first && first->state == RUN_QUEUED && str_is(words->run, first->id);

	if (words->connection != talk->connection) {
		stale(conv, words);
		return OK;
	}
	wrong = wrong_with(conv, words);
	if (wrong) {
		talk->closed = talk->broken = true;
		snprintf(talk->why, sizeof(talk->why), "%s", wrong);
		return OK;
	}
	conv->port = words->port;
	if (conv->lease.state == LEASE_STARTING)
		TRY(keeper_hear(conv, &hearing));
	if (conv->talk != talk) // it came too late: the dialogue is gone, and its words with it
		return OK;
	talk->greeted = true;
	if (conv->lease.state == LEASE_ACTIVE)
		return hear_resume(conv, words);
	if (conv->lease.state == LEASE_READY && has_taken) {
		first->run_generation = conv->lease.run_generation;
		return hear_take_run(conv, first);
	}
	return OK;
}

// --------------------------------------------------------------------------------- runs

static fallible hear_accepted(struct conv *conv, const struct words *words)
{
	struct run *run = conv_first(conv);

	if (!run || run->state != RUN_QUEUED || conv->lease.state != LEASE_READY ||
	    !is_fenced_in(conv, run, words)) {
		stale(conv, words);
		return OK;
	}
	return hear_take_run(conv, run);
}

static fallible hear_refused(struct conv *conv, const struct words *words)
{
	struct run *run = conv_first(conv);
	struct run_before before;
	struct err *err;

	if (!run || run->state != RUN_QUEUED || !is_fenced_in(conv, run, words)) {
		stale(conv, words);
		return OK;
	}
	before = runs_mark(run);
	runs_set_end(run, &(struct run_end){RUN_FAILED, "runner_refused",
					    "the runner did not take the run"});
	err = book_commit(conv, &(struct book_change){.runs = {run}, .run_count = 1});
	if (err) {
		runs_undo(run, &before);
		return err;
	}
	runs_log_end(run);
	runs_unlist(run);
	conv->sent_on = 0;
	bell_ring(&conv->changed);
	return OK;
}

// Copies a member of the word, if it has it.
static void hear_copy(struct json_out *out, const struct words *words, const char *key)
{
	const struct json *value = json_get(words->tree, key);

	if (!value)
		return;
	json_key(out, key);
	json_add_value(out, value);
}

// What cannot be kept now is not acknowledged: it is heard again, until it can.
static fallible hear_output(struct conv *conv, struct run *run, const struct words *words)
{
	const struct seam *seam = conv->convs->seam;
	auto_buf more = BUF_INIT(WORDS_LINE_MAX * 2);
	struct json_out out = json_to(&more);
	int64_t now = loop_now(conv->convs->loop);

	json_put_int(&out, "seq", (int64_t)words->seq);
	hear_copy(&out, words, "stream");
	hear_copy(&out, words, "data");
	TRY(runs_log_line(run, "output", buf_view(&more)), "keep an output");
	run->seq = words->seq;
	run->active = true;
	hear_acknowledge(conv, run, words->seq);
	if (now - conv->alive_at >= KEEP_ALIVE_MS) {
		struct seam_site site = conv_site(conv);

		conv->alive_at = now;
		seam->keep_alive(seam->arg, &site);
	}
	return OK;
}

static fallible hear_question(struct conv *conv, struct run *run, const struct words *words)
{
	auto_buf asked = BUF_INIT(WORDS_LINE_MAX * 2), more = BUF_INIT(WORDS_LINE_MAX * 2);
	struct json_out out = json_to(&asked);
	struct err *err;

	json_begin(&out, '{');
	json_put_str(&out, "id", words->question);
	hear_copy(&out, words, "text");
	hear_copy(&out, words, "data");
	json_end(&out, '}');
	if (!buf_ok(&asked))
		return OK;
	snprintf(run->question, sizeof(run->question), STR_FMT, STR_ARG(words->question));
	free(run->asked);
	run->asked = buf_take(&asked);
	err = book_commit(conv, &(struct book_change){.runs = {run}, .run_count = 1});
	if (err) {
		run->question[0] = '\0';
		return err;
	}
	buf_fmt(&more, "\"seq\":%llu,\"question\":%s", (unsigned long long)words->seq, run->asked);
	runs_log(run, "question", buf_view(&more));
	run->seq = words->seq;
	hear_acknowledge(conv, run, words->seq);
	bell_ring(&conv->changed);
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

static void hear_take_result(struct run *run, const struct words *words)
{
	const struct json *error = json_get(words->tree, "error");
	struct run_end end = {RUN_COMPLETED, NULL, NULL};
	char code[40] = "runner_failed", message[LEASE_ERROR_MAX] = "the run failed";
	struct str text = {0};
	auto_buf result = BUF_INIT(CONV_INPUT_MAX * 2);
	struct json_out out = json_to(&result);

	json_begin(&out, '{');
	json_put_str(&out, "status", words->status);
	hear_copy(&out, words, "output");
	hear_copy(&out, words, "error");
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

static fallible hear_result(struct conv *conv, struct run *run, const struct words *words)
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
	hear_take_result(run, words);
	hearing.event.error = run->message;
	words_ack(&out, run, words->seq);
	conv->used_ms = convs_now(conv->convs);
	TRY(keeper_hear(conv, &hearing));
	if (conv->talk && !conv->talk->closed)
		link_say(conv->talk, &out);
	conv->sent_on = 0;
	return OK;
}

// Of a run whose end is settled. One that waits may have been taken already, by a runner whose
// answer died with an earlier daemon: what it says of that run is needed, and said again.
static bool is_past(const struct conv *conv, struct str id)
{
	list_each (at, &conv->runs)
		if (str_is(id, link_of(at, struct run, link)->id))
			return false;
	return id.len == LEASE_RUN_LEN;
}

static fallible hear_of_run(struct conv *conv, const struct words *words)
{
	struct run *run = conv_running(conv);

	if (!is_fenced_in(conv, run, words)) {
		struct run past = {0};

		stale(conv, words);
		if (is_past(conv, words->run)) { // then it need not be said again
			memcpy(past.id, words->run.at, LEASE_RUN_LEN);
			hear_acknowledge(conv, &past, words->seq);
		}
		return OK;
	}
	conv->output_at = loop_now(conv->convs->loop);
	if (words->seq <= run->seq) {
		hear_acknowledge(conv, run, words->seq);
		return OK;
	}
	if (words->kind == WORDS_OUTPUT)
		return hear_output(conv, run, words);
	return words->kind == WORDS_QUESTION ? hear_question(conv, run, words)
					     : hear_result(conv, run, words);
}

static fallible hear_handle(struct conv *conv, const struct words *words)
{
	conv->heard_at = loop_now(conv->convs->loop);
	switch (words->kind) {
	case WORDS_HELLO:
		return hear_hello(conv, words);
	case WORDS_ACCEPTED:
		return hear_accepted(conv, words);
	case WORDS_REFUSED:
		return hear_refused(conv, words);
	case WORDS_PONG:
		if (words->number == conv->pings)
			conv->pinged_at = 0;
		return OK;
	case WORDS_HEARTBEAT:
		if (words->connection && !is_current(conv, words))
			stale(conv, words);
		else
			conv->beat_at = conv->heard_at;
		return OK;
	default:
		return hear_of_run(conv, words);
	}
}

fallible hear_word(struct conv *conv, bool *out_did)
{
	struct link_to *talk = conv->talk;
	struct words *words = talk ? link_heard(talk) : NULL;

	if (!words)
		return OK;
	*out_did = true;
	TRY(hear_handle(conv, words), "hear a runner");
	if (conv->talk == talk) // else it went with its words
		link_done(talk);
	return OK;
}

fallible hear_send_run(struct conv *conv)
{
	struct run *run = conv_first(conv);
	auto_buf words = BUF_INIT(WORDS_LINE_MAX * 2);

	if (conv->sent_on == conv->talk->connection)
		return OK;
	conv->sent_on = conv->talk->connection;
	run->run_generation = conv->lease.run_generation;
	words_run(&words, run, conv->talk->connection);
	if (buf_ok(&words))
		link_say(conv->talk, &words);
	return OK;
}
