// What people ask of a keeper, granted by it: an interrupt, an answer, a deletion, a stop, a place
// to work in. Whoever asks waits until it is durable.
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "conv/book.h"
#include "conv/inner.h"
#include "conv/link.h"
#include "conv/runs.h"

static fallible wish_answer(struct conv *conv, struct wish *wish)
{
	struct run *run = conv_running(conv);
	struct run_before before;
	struct err *err;
	auto_buf words = BUF_INIT(CONV_INPUT_MAX + 4096);
	char question[sizeof(run->question)];

	if (!run || !run->question[0] ||
	    (wish->question.at && !str_is(wish->question, run->question)))
		return err_new(CONFLICT, "no_question", "the run has no such open question");
	if (!conv->talk || conv->talk->closed || !conv->talk->greeted)
		return err_new(UNAVAILABLE, "runner_away", "the runner is not connected now");
	before = runs_mark(run);
	memcpy(question, run->question, sizeof(question));
	run->question[0] = '\0';
	err = book_commit(conv, &(struct book_change){.runs = {run}, .run_count = 1});
	if (err) {
		runs_undo(run, &before);
		memcpy(run->question, question, sizeof(question));
		return err;
	}
	words_answer(&words, run, str_of(question), wish->answer);
	link_say(conv->talk, &words);
	runs_log(run, "answer", (struct str){0});
	conv->output_at = loop_now(conv->convs->loop);
	return OK;
}

static fallible wish_interrupt(struct conv *conv)
{
	struct run *running = conv_running(conv), *first = conv_first(conv);
	struct hearing hearing = {
		.event = {.kind = LEASE_INTERRUPT},
		.lost = {RUN_INTERRUPTED, "user_interrupt", "the run was interrupted"},
	};

	if (!first)
		return err_new(CONFLICT, "nothing_runs", "no run is under way");
	if (conv->talk && running) {
		auto_buf words = BUF_INIT(4096);

		words_interrupt(&words, running);
		link_say(conv->talk, &words);
	}
	// One that has not begun ends with the request; those behind it wait on.
	if (!running) {
		hearing.run = first;
		hearing.before = runs_mark(first);
		runs_set_end(first, &hearing.lost);
	}
	return keeper_hear(conv, &hearing);
}

static fallible intend_deletion(struct conv *conv)
{
	struct err *err;

	if (conv->deleting)
		return OK;
	conv->deleting = true;
	err = book_commit(conv, &(struct book_change){.session = true});
	if (err)
		conv->deleting = false;
	else
		log_event(LOG_INFO, "session.deleting", "tenant", conv->tenant, "session", conv->id,
			  NULL);
	return err;
}

static fallible stop_for(struct conv *conv, enum lease_reason reason)
{
	struct hearing hearing = {
		.event = {.kind = LEASE_STOP, .reason = reason},
		.lost = {RUN_FAILED, "session_stopped", "its runner was stopped"},
	};

	return conv->lease.state == LEASE_NONE ? OK : keeper_hear(conv, &hearing);
}

// Not while something of the session is being ended, nor once its own end was asked for: what the
// deletion has removed must not be made again.
static fallible wish_enter(struct conv *conv)
{
	if (conv->deleting)
		return conv_absent(str_of(conv->id));
	if (conv->convs->closing || conv->convs->draining)
		return conv_draining();
	if (conv->lease.state == LEASE_QUARANTINED)
		return err_new(UNAVAILABLE, "cleanup_exhausted",
			       "an earlier runner could not be removed");
	if (lease_is_fenced(&conv->lease))
		return err_new(UNAVAILABLE, "runner_stopping", "its runner is being stopped");
	TRY(keeper_settle(conv, NULL));
	conv->used_ms = convs_now(conv->convs);
	return book_commit(conv, &(struct book_change){.session = true});
}

void wish_grant(struct conv *conv, bool *out_did)
{
	struct wish *wish;

	if (link_empty(&conv->wishes))
		return;
	*out_did = true;
	wish = link_of(conv->wishes.next, struct wish, link);
	link_drop(&wish->link);
	switch (wish->kind) {
	case WISH_INTERRUPT:
		wish->err = wish_interrupt(conv);
		break;
	case WISH_ANSWER:
		wish->err = wish_answer(conv, wish);
		break;
	case WISH_DELETE:
		wish->err = intend_deletion(conv);
		break;
	case WISH_ENTER:
		wish->err = wish_enter(conv);
		break;
	case WISH_STOP:
		wish->err = stop_for(conv, wish->reason);
		break;
	}
	wish->done = true;
	bell_ring(&wish->granted);
}

// Why nobody grants it: the session is gone, or its keeper is, or has not come yet.
static fallible ungranted(const struct conv *conv, const struct wish *wish)
{
	if (conv->convs->closing)
		return conv_draining();
	if (conv->listed)
		return conv_starting();
	return wish->kind == WISH_DELETE ? OK : conv_absent(str_of(conv->id));
}

// Nobody is left waiting for a keeper that has gone.
void wish_dismiss(struct conv *conv)
{
	list_each (at, &conv->wishes) {
		struct wish *wish = link_of(at, struct wish, link);

		link_drop(at);
		wish->err = ungranted(conv, wish);
		wish->done = true;
		bell_ring(&wish->granted);
	}
}

fallible wish_ask(struct conv *conv, struct wish *wish)
{
	if (!conv->keeper)
		return ungranted(conv, wish);
	bell_init(&wish->granted);
	link_add(&conv->wishes, &wish->link);
	bell_ring(&conv->wake);
	task_shield(true);
	while (!wish->done)
		err_free(bell_wait(&wish->granted, CLOCK_NEVER));
	task_shield(false);
	return wish->err;
}
