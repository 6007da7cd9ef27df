// The keeper of a conversation is a task that turns: it takes the first thing that is to be done,
// in an order that puts evidence before judgement, and sleeps when there is nothing.
//
//	1. the result of a stop attempt
//	2. what somebody asks for
//	3. what the runner said; then that it closed
//	4. supervision: pings, silence, grace
//	5. the lease's own deadline
//	6. the steps of a deletion
//	7. queued work
//
// Each is the same three movements: hear (a pure function), commit, act. When the store does not
// take a commit, nothing has changed, and the turn is tried again.
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "conv/admission.h"
#include "conv/book.h"
#include "conv/faults.h"
#include "conv/inner.h"
#include "conv/link.h"
#include "conv/runs.h"
#include "conv/slot.h"
#include "model/timers.h"

#define RETRY_MS 250

static struct loop *loop_of(const struct conv *conv)
{
	return conv->convs->loop;
}

// ------------------------------------------------------------------------ what is to be done

static fallible keeper_take_result(struct conv *conv, bool *out_did)
{
	struct hearing hearing = {
		.event = {.kind = LEASE_STOPPED,
			  .attempt = conv->stopped.attempt,
			  .seen = conv->stopped.seen,
			  .error = conv->stopped.error},
	};

	if (!conv->stopped.there)
		return OK;
	*out_did = true;
	TRY(keeper_hear(conv, &hearing));
	conv->stopped.there = false;
	return OK;
}

static fallible pass_time(struct conv *conv, bool *out_did)
{
	int64_t due = lease_deadline(&conv->lease);

	if (!due || convs_now(conv->convs) < due)
		return OK;
	*out_did = true;
	return keeper_tell(conv, LEASE_TIME, NULL);
}

// A user's new run makes a quarantined lease be looked at once more; then it is refused.
static fallible keeper_force(struct conv *conv)
{
	struct run *run;

	conv->force = false;
	TRY(keeper_tell(conv, LEASE_FORCE, NULL));
	if (conv->lease.state != LEASE_QUARANTINED)
		return OK;
	while ((run = conv_first(conv))) {
		struct run_before before = runs_mark(run);
		struct err *err;

		runs_set_end(run, &(struct run_end){RUN_FAILED, "cleanup_exhausted",
						    "an earlier runner could not be removed"});
		err = book_commit(conv, &(struct book_change){.runs = {run}, .run_count = 1});
		if (err) {
			runs_undo(run, &before);
			return err;
		}
		keeper_end_run(run);
	}
	bell_ring(&conv->changed);
	return OK;
}

static fallible keeper_want(struct conv *conv, bool *out_did)
{
	struct run *run = conv_first(conv);
	struct hearing hearing = {.event = {.kind = LEASE_WANTED}};
	auto_free struct seam_view *view = NULL;
	enum lease_state state = conv->lease.state;
	uint64_t version = conv->lease_version;

	if (!run || run->state != RUN_QUEUED || conv->deleting || conv->convs->closing ||
	    conv->convs->draining)
		return OK;
	if (state == LEASE_QUARANTINED) {
		*out_did = conv->force;
		return conv->force ? keeper_force(conv) : OK;
	}
	if (state == LEASE_READY && conv->talk && conv->talk->greeted)
		return hear_send_run(conv);
	// Who is being talked to has his deadline to answer in, after a restart a ready one, too.
	if (state == LEASE_ACTIVE || lease_is_fenced(&conv->lease) ||
	    (state <= LEASE_READY && conv->talk) || loop_now(loop_of(conv)) < conv->launch_at)
		return OK;
	*out_did = true;
	view = mem_new_of(struct seam_view);
	attempt_look(conv, view);
	if (conv->lease_version != version) // a decision that was made since comes first
		return OK;
	hearing.event.seen = seam_judge(view, &conv->lease);
	hearing.event.error = view->failed ? view->why : NULL;
	return keeper_hear(conv, &hearing);
}

// -------------------------------------------------------------------------------- turning

static fallible keeper_turn(struct conv *conv, bool *out_did)
{
	if (!conv->reconciled) {
		*out_did = true;
		return reconcile(conv);
	}
	TRY(keeper_take_result(conv, out_did));
	if (!*out_did)
		wish_grant(conv, out_did);
	if (!*out_did)
		TRY(hear_word(conv, out_did));
	if (!*out_did)
		TRY(supervise(conv, out_did));
	if (!*out_did)
		TRY(pass_time(conv, out_did));
	if (!*out_did && conv->deleting)
		TRY(remove_step(conv, out_did));
	if (!*out_did)
		TRY(keeper_want(conv, out_did));
	return OK;
}

static void least(int64_t *at, int64_t other)
{
	if (other < *at)
		*at = other;
}

static int64_t keeper_next_turn(const struct conv *conv)
{
	int64_t now = loop_now(loop_of(conv)), at = supervise_next(conv);
	int64_t due = lease_deadline(&conv->lease);
	const struct run *run = conv_first(conv);

	if (due)
		least(&at, now + due - convs_now(conv->convs));
	if (run && run->state == RUN_QUEUED && conv->launch_at > now)
		least(&at, conv->launch_at);
	return at;
}

static void turn_on(struct conv *conv)
{
	int64_t until = CLOCK_NEVER;
	auto_err err = OK;
	bool did = false;

	if (conv->retry_at > loop_now(loop_of(conv))) {
		wish_grant(conv, &did); // whoever asks is told what is wrong
		until = conv->retry_at;
	} else {
		conv->retry_at = 0;
		err = keeper_turn(conv, &did);
	}
	if (err) {
		log_event(LOG_WARN, "keeper.held_up", "session", conv->id, "trail", err_trail(err),
			  NULL);
		conv->retry_at = loop_now(loop_of(conv)) + RETRY_MS;
		did = true;
	}
	if (did)
		return;
	if (until == CLOCK_NEVER)
		until = keeper_next_turn(conv);
	if (link_empty(&conv->wishes) && !conv->stopped.there)
		err_free(bell_wait(&conv->wake, until));
}

static void keeper_keep(void *arg)
{
	struct conv *conv = arg;

	task_shield(true);
	while (conv->listed && !conv->convs->closing)
		turn_on(conv);
	keeper_drop_talk(conv);
	conv->keeper = NULL;
	wish_dismiss(conv);
	bell_ring(&conv->changed);
	convs_end(conv->convs);
	conv_drop(conv);
}

void keeper_start(struct conv *conv)
{
	conv_hold(conv);
	convs_begin(conv->convs);
	conv->keeper = task_start(loop_of(conv), "keeper", keeper_keep, conv);
}
