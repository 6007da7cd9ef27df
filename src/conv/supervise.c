// A live runner, watched. While it works: a ping after a minute without output, which is to be
// answered; output of some kind within five; and when the connection is lost, a grace in which it
// may come back and nothing else is held against it. Waiting for a human is not silence.
//
// Words that have come are heard before anything is judged (keeper.c), so a result that was sent
// in time counts, whatever became of its runner since.
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "conv/book.h"
#include "conv/inner.h"
#include "conv/link.h"
#include "conv/runs.h"
#include "model/timers.h"

#define DIAL_STEPS 20 // tries to reach a runner again, within its grace

static int64_t now_of(const struct conv *conv)
{
	return loop_now(conv->convs->loop);
}

static int64_t to_loop(const struct conv *conv, int64_t wall_ms)
{
	return now_of(conv) + wall_ms - convs_now(conv->convs);
}

static bool is_connected(const struct conv *conv)
{
	return conv->talk && !conv->talk->closed && conv->talk->greeted;
}

static void least(int64_t *at, int64_t other)
{
	if (other < *at)
		*at = other;
}

// Nobody says that it is alive, and it works for longer than work takes: half an hour, or twice
// what it was given. A question is for somebody else to answer.
static int64_t stuck_at(const struct conv *conv, const struct run *run)
{
	int64_t limit = timer_ms(TIMER_STUCK), twice = 2 * (int64_t)run->timeout_ms;
	int64_t at = to_loop(conv, run->started_ms + (twice > limit ? twice : limit));
	int64_t stale = conv->beat_at + timer_ms(TIMER_STALE);

	if (run->question[0] || !run->started_ms)
		return CLOCK_NEVER;
	return at > stale ? at : stale;
}

static int64_t next_of_work(const struct conv *conv, const struct run *run)
{
	int64_t at = CLOCK_NEVER, now = now_of(conv);

	if (run->deadline_ms)
		least(&at, to_loop(conv, run->deadline_ms));
	if (!is_connected(conv)) {
		least(&at, run->grace_ms ? to_loop(conv, run->grace_ms) : now);
		if (conv->port)
			least(&at, now + timer_ms(TIMER_GRACE) / DIAL_STEPS);
		return at;
	}
	least(&at, stuck_at(conv, run));
	if (!run->question[0])
		least(&at, conv->output_at + timer_ms(TIMER_NO_OUTPUT));
	if (conv->pinged_at)
		least(&at, conv->pinged_at + timer_ms(TIMER_PONG));
	else
		least(&at, (conv->output_at > conv->heard_at ? conv->output_at : conv->heard_at) +
				   timer_ms(TIMER_PING));
	return at;
}

int64_t supervise_next(const struct conv *conv)
{
	const struct run *run = conv_running(conv);

	if (conv->lease.state == LEASE_ACTIVE && run)
		return next_of_work(conv, run);
	if (conv->talk && conv->talk->closed && !link_heard(conv->talk))
		return now_of(conv);
	if (conv->lease.state == LEASE_WARM && is_connected(conv))
		return conv->heard_at + timer_ms(TIMER_STALE);
	return CLOCK_NEVER;
}

static fallible supervise_fail(struct conv *conv, enum lease_event_kind kind, const char *code,
			       const char *message)
{
	struct hearing hearing = {
		.event = {.kind = kind, .error = code},
		.lost = {RUN_FAILED, code, message},
	};

	return keeper_hear(conv, &hearing);
}

// Not at work: a runner that hangs up before it is ready never will be; a warm one is looked at
// when it is wanted.
static fallible hung_up(struct conv *conv)
{
	struct run *run = conv_first(conv);
	struct hearing hearing = {
		.event = {.kind = LEASE_UNREADY, .error = conv->talk->why},
	};

	if (conv->lease.state != LEASE_STARTING) {
		link_drop_to(take_ptr(conv->talk));
		return OK;
	}
	if (run && run->state == RUN_QUEUED) {
		hearing.run = run;
		hearing.before = runs_mark(run);
		if (++run->tries >= RUN_TRIES_MAX || conv->talk->broken)
			runs_set_end(run, &(struct run_end){RUN_FAILED, "readiness_failed",
							    conv->talk->why});
	}
	return keeper_hear(conv, &hearing);
}

static fallible begin_grace(struct conv *conv, struct run *run)
{
	struct err *err;

	run->grace_ms = convs_now(conv->convs) + timer_ms(TIMER_GRACE);
	conv->pinged_at = 0;
	log_event(LOG_INFO, "runner.disconnected", "session", conv->id, "run", run->id, NULL);
	err = book_commit(conv, &(struct book_change){.runs = {run}, .run_count = 1});
	if (err)
		run->grace_ms = 0;
	return err;
}

static void dial_again(struct conv *conv)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);
	struct link_to *talk = NULL;
	int fd = -1;
	auto_err err = seam->dial(seam->arg, &site, conv->port, &fd);

	if (!err)
		err = link_open(conv, fd, &talk);
	if (err)
		return;
	link_drop_to(conv->talk);
	conv->talk = talk;
}

static fallible see_to_connection(struct conv *conv, struct run *run, bool *out_did)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);
	bool closed = !conv->talk || conv->talk->closed;

	*out_did = true;
	if (conv->talk && conv->talk->broken)
		return supervise_fail(conv, LEASE_RUN_FAILED, "runner_protocol_error",
				      conv->talk->why);
	if (closed && !seam->lives(seam->arg, &site, &conv->lease))
		return supervise_fail(conv, LEASE_SICK,
				      run->active || run->seq ? "runner_error_after_activity"
							      : "runner_error_before_activity",
				      "the runner ended without a result");
	if (!run->grace_ms)
		return begin_grace(conv, run);
	if (convs_now(conv->convs) >= run->grace_ms)
		return supervise_fail(conv, LEASE_SICK, "runner_disconnected",
				      "the runner did not come back");
	if (closed && conv->port)
		dial_again(conv);
	// What is left is to wait, in small steps while somebody is being dialled.
	if (closed && conv->port && conv->talk && conv->talk->closed)
		err_free(bell_wait(&conv->wake, now_of(conv) + timer_ms(TIMER_GRACE) / DIAL_STEPS));
	else
		*out_did = false;
	return OK;
}

static void ping(struct conv *conv)
{
	auto_buf words = BUF_INIT(256);

	conv->pinged_at = now_of(conv);
	words_ping(&words, ++conv->pings);
	link_say(conv->talk, &words);
}

static fallible supervise_watch(struct conv *conv, struct run *run, bool *out_did)
{
	int64_t now = now_of(conv);
	int64_t sign = conv->output_at > conv->heard_at ? conv->output_at : conv->heard_at;

	*out_did = true;
	if (conv->pinged_at && now >= conv->pinged_at + timer_ms(TIMER_PONG))
		return supervise_fail(conv, LEASE_SICK, "runner_ping_timeout",
				      "the runner did not answer a ping");
	if (!run->question[0] && now >= conv->output_at + timer_ms(TIMER_NO_OUTPUT))
		return supervise_fail(conv, LEASE_SICK, "runner_no_output",
				      "the run was silent too long");
	if (now >= stuck_at(conv, run)) {
		conv->stuck = true;
		return supervise_fail(conv, LEASE_SICK, "stuck",
				      "the run took too long, and its runner sends no heartbeats");
	}
	if (!conv->pinged_at && now >= sign + timer_ms(TIMER_PING)) {
		ping(conv);
		return OK;
	}
	*out_did = false;
	return OK;
}

// One that has nothing to do and says nothing counts as disconnected: it is reached anew when it is
// wanted.
static bool is_stale(const struct conv *conv)
{
	return conv->lease.state == LEASE_WARM && is_connected(conv) &&
	       now_of(conv) >= conv->heard_at + timer_ms(TIMER_STALE);
}

static fallible watch_idle(struct conv *conv, bool *out_did)
{
	if (!conv->talk || (!conv->talk->closed && !is_stale(conv)))
		return OK;
	*out_did = true;
	if (!conv->talk->closed)
		log_event(LOG_INFO, "runner.silent", "session", conv->id, NULL);
	return hung_up(conv);
}

fallible supervise(struct conv *conv, bool *out_did)
{
	struct run *run = conv_running(conv);

	if (conv->lease.state != LEASE_ACTIVE || !run)
		return watch_idle(conv, out_did);
	if (run->deadline_ms && convs_now(conv->convs) >= run->deadline_ms) {
		*out_did = true;
		return supervise_fail(conv, LEASE_RUN_FAILED, "timeout", "the run took too long");
	}
	if (conv->destroyed) {
		*out_did = true;
		TRY(supervise_fail(conv, LEASE_SICK, "sandbox_destroyed",
				   "its sandbox had to be rebuilt"));
		conv->destroyed = false;
		return OK;
	}
	return is_connected(conv) ? supervise_watch(conv, run, out_did)
				  : see_to_connection(conv, run, out_did);
}
