// Looking and stopping. A look that fails, or takes too long, is never absence. One attempt to stop
// is: look; the polite signal; three looks; the kill that cannot be outrun; a last look. Only
// "nothing there" counts, and it is asked for the whole session.
//
// An attempt runs in a task of its own, for it may hang for longer than its lease waits. Before
// each signal it asks whether the lease still says that this attempt is under way: one that comes
// late hurts nobody.
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "conv/faults.h"
#include "conv/inner.h"
#include "conv/slot.h"
#include "model/timers.h"

enum lease_seen seam_judge(const struct seam_view *view, const struct lease *lease)
{
	const struct seam_found *found = &view->found[0];
	const struct lease_place *place = &lease->place;

	if (view->failed)
		return LEASE_SEES_FAILED;
	if (!view->count)
		return LEASE_SEES_NOTHING;
	if (view->count > 1 || !lease->instance[0] || !found->pid ||
	    strcmp(found->instance, lease->instance) != 0 || found->generation != lease->generation)
		return LEASE_SEES_OTHER;
	// A number alone proves nothing, but where more is known it must agree.
	if (place->pid && (place->pid != found->pid || place->start != found->start))
		return LEASE_SEES_OTHER;
	return LEASE_SEES_MATCH;
}

static void fail_view(struct seam_view *view, const char *why)
{
	*view = (struct seam_view){.failed = true};
	snprintf(view->why, sizeof(view->why), "%s", why);
}

void attempt_look(struct conv *conv, struct seam_view *out)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);
	int64_t began = loop_now(conv->convs->loop);
	int64_t deadline = began + timer_ms(TIMER_INSPECTION);
	auto_err fault = OK;

	slot_looking(conv);
	fault = faults_meet_until(FAULT_OBSERVE, conv->id, deadline);
	if (fault)
		fail_view(out, err_message(fault));
	else
		seam->look(seam->arg, &site, &conv->lease, out);
	slot_looked(conv, out->failed && loop_now(conv->convs->loop) >= deadline);
	if (out->failed)
		log_event(LOG_WARN, "runner.unseen", "session", conv->id, "sandbox", conv->box,
			  "why", out->why, NULL);
}

// ---------------------------------------------------------------------------- one attempt

struct attempt {
	struct conv *conv;
	char id[LEASE_ATTEMPT_LEN + 1];
	struct seam_view view;
};

static bool is_current(const struct attempt *attempt)
{
	const struct lease *lease = &attempt->conv->lease;

	return lease->state == LEASE_STOPPING && strcmp(lease->attempt, attempt->id) == 0;
}

static bool is_gone(struct attempt *attempt)
{
	attempt_look(attempt->conv, &attempt->view);
	return !attempt->view.failed && !attempt->view.count;
}

static void attempt_strike(struct attempt *attempt, bool force)
{
	struct conv *conv = attempt->conv;
	struct seam_site site = conv_site(conv);
	const struct seam *seam = conv->convs->seam;

	if (is_current(attempt))
		seam->end(seam->arg, &site, &conv->lease, &attempt->view, force);
}

// The looks after the polite signal come at 100, 500 and 1000 ms of its time.
static bool wait_gone(struct attempt *attempt)
{
	static const enum timer_name looks[] = {TIMER_OBSERVE_1, TIMER_OBSERVE_2, TIMER_OBSERVE_3};
	int64_t began = loop_now(attempt->conv->convs->loop);

	for (int i = 0; i < 3 && is_current(attempt); i++) {
		err_free(task_sleep_until(began + timer_ms(looks[i])));
		if (is_gone(attempt))
			return true;
	}
	return false;
}

static fallible attempt_stop(struct attempt *attempt)
{
	TRY(faults_meet(FAULT_STOP, attempt->conv->id));
	if (is_gone(attempt))
		return OK;
	attempt_strike(attempt, false);
	if (wait_gone(attempt))
		return OK;
	attempt_strike(attempt, true);
	is_gone(attempt);
	return OK;
}

static void attempt_tell(const struct attempt *attempt)
{
	struct conv *conv = attempt->conv;
	const struct seam_view *view = &attempt->view;

	memcpy(conv->stopped.attempt, attempt->id, sizeof(attempt->id));
	conv->stopped.seen = seam_judge(view, &conv->lease);
	snprintf(conv->stopped.error, sizeof(conv->stopped.error), "%s",
		 view->failed  ? view->why
		 : view->count ? "a runner is still there"
			       : "");
	conv->stopped.there = true;
}

static void attempt_run(void *arg)
{
	struct attempt *attempt = arg;
	struct conv *conv = attempt->conv;
	auto_err err = OK;

	task_shield(true);
	err = attempt_stop(attempt);
	if (err)
		fail_view(&attempt->view, err_message(err));
	// A late answer is told too: the lease does not know its number any more. But it never
	// takes the place of one that counts.
	if (!conv->stopped.there || is_current(attempt))
		attempt_tell(attempt);
	bell_ring(&conv->wake);
	convs_end(conv->convs);
	conv_drop(conv);
	free(attempt);
}

void attempt_start(struct conv *conv)
{
	struct attempt *attempt = mem_new_of(struct attempt);

	conv_hold(conv);
	convs_begin(conv->convs);
	attempt->conv = conv;
	memcpy(attempt->id, conv->lease.attempt, sizeof(attempt->id));
	task_start(conv->convs->loop, "runner.stop", attempt_run, attempt);
}
