// After a restart: what the lease says is held against what lives, before anything is launched. A
// runner that matches is talked to again; its run has a grace in which it must be heard of.
#include "base/mem.h"
#include "conv/inner.h"
#include "conv/link.h"
#include "conv/runs.h"
#include "model/timers.h"

#define DRAIN_WORDS_MS 10000 // for the end of the dialogue, which another process may hold open

// The runner is gone, but its last words may lie in its dialogue: evidence comes before judgement.
// A word that cannot be kept now is heard at the next try: it stays where it is until then.
static fallible hear_out(struct conv *conv)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);
	int64_t until = loop_now(conv->convs->loop) + DRAIN_WORDS_MS;
	int fd = -1;

	if (!conv->talk) {
		auto_err err = seam->attach(seam->arg, &site, &conv->lease, &fd);

		if (!err)
			err = keeper_talk(conv, fd);
		if (err)
			return OK; // it has left none
	}
	while (conv->talk && !(conv->talk->closed && !link_heard(conv->talk)) &&
	       loop_now(conv->convs->loop) < until) {
		bool did = false;

		TRY(hear_word(conv, &did));
		if (!did)
			err_free(bell_wait(&conv->wake, until));
	}
	return OK;
}

// What the runner took while nobody could write it down, it tells in its first words: it has the
// grace of a lost connection to say them, whatever time has passed while no daemon lived.
static void give_grace(struct conv *conv)
{
	int64_t until = convs_now(conv->convs) + timer_ms(TIMER_GRACE);

	if (conv->talk && conv->lease.state <= LEASE_READY && conv->lease.deadline_ms < until)
		conv->lease.deadline_ms = until;
}

fallible reconcile(struct conv *conv)
{
	struct run *run = conv_running(conv);
	struct hearing hearing = {.event = {.kind = LEASE_FOUND}};
	auto_free struct seam_view *view = mem_new_of(struct seam_view);

	attempt_look(conv, view);
	hearing.event.seen = seam_judge(view, &conv->lease);
	hearing.event.error = view->failed ? view->why : NULL;
	if (run)
		TRY(runs_log_resume(run));
	if (conv->lease.state == LEASE_ACTIVE && hearing.event.seen == LEASE_SEES_NOTHING)
		TRY(hear_out(conv));
	run = conv_running(conv);
	if (run) {
		hearing.lost = (struct run_end){RUN_FAILED,
						run->seq ? "runner_error_after_activity"
							 : "runner_error_before_activity",
						"its runner was gone when cove came back"};
		// The connection is lost with the daemon that had it.
		run->grace_ms = convs_now(conv->convs) + timer_ms(TIMER_GRACE);
	}
	TRY(keeper_hear(conv, &hearing));
	give_grace(conv);
	// What could not be looked at is looked at again.
	conv->reconciled = !view->failed || lease_is_fenced(&conv->lease) ||
			   conv->lease.state == LEASE_NONE;
	if (!conv->reconciled)
		conv->retry_at = loop_now(conv->convs->loop) + timer_ms(TIMER_MAINTAIN_LEAST);
	return OK;
}
