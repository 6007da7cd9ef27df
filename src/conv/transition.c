// One transition of a lease: hear an event (a pure function, model/lease), commit what it means for
// the lease and for a run, then act: launch, attach, look, stop. When the store does not take the
// commit, nothing has changed and nothing is done. A failed launch is an event of its own.
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
#include "model/timers.h"

static struct loop *transition_loop(const struct conv *conv)
{
	return conv->convs->loop;
}

// ------------------------------------------------------------------------------- acting

void keeper_drop_talk(struct conv *conv)
{
	link_drop_to(take_ptr(conv->talk));
	conv->sent_on = 0;
	conv->pinged_at = 0;
	conv->port = 0;
}

// A part of cove is away, which says nothing of the runner: the launch is tried until it is back.
static bool is_away(const struct err *err)
{
	static const char *const reasons[] = {"no_warden", "starting", "box_starting"};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (err_kind(err) == ERR_UNAVAILABLE && !strcmp(err_reason(err), reasons[i]))
			return true;
	return false;
}

// Whether another try may help, and there is one left.
static bool may_try_again(const struct run *run, const struct err *err)
{
	enum err_kind kind = err_kind(err);

	if (is_away(err))
		return true;
	return run->tries < RUN_TRIES_MAX && kind != ERR_INVALID && kind != ERR_NOT_FOUND &&
	       kind != ERR_FORBIDDEN && kind != ERR_NO_SPACE;
}

// What kept a runner from starting is counted against the run that wanted it, unless cove itself
// did.
static fallible launch_failed(struct conv *conv, enum lease_event_kind kind, struct err *failure)
{
	auto_err err = failure;
	struct run *run = conv_first(conv);
	bool again = run && may_try_again(run, err);
	struct hearing hearing = {.event = {.kind = kind, .error = err_message(err)}, .run = run};
	static const int64_t pauses_ms[] = {1000, 2000, 4000};
	int64_t wait_ms = pauses_ms[0];

	log_event(LOG_WARN, "runner.unready", "session", conv->id, "sandbox", conv->box, "trail",
		  err_trail(err), NULL);
	if (run) {
		hearing.before = runs_mark(run);
		wait_ms = pauses_ms[run->tries < 2 ? run->tries : 2];
		run->tries += !is_away(err);
		if (!again)
			runs_set_end(run, &(struct run_end){RUN_FAILED, err_reason(err),
							    err_message(err)});
	}
	conv->launch_at = loop_now(transition_loop(conv)) + wait_ms / timers_scale_now();
	return keeper_hear(conv, &hearing);
}

fallible keeper_talk(struct conv *conv, int fd)
{
	keeper_drop_talk(conv);
	conv_note_alive(conv);
	return link_open(conv, fd, &conv->talk);
}

static void tell_step(struct run *run, const char *step)
{
	if (run)
		runs_log_step(run, step);
}

// Loop time at which a start is given up: by the lease's own deadline, where it is one.
static int64_t startup_ends(const struct conv *conv)
{
	int64_t now = loop_now(transition_loop(conv));

	if (conv->lease.state != LEASE_STARTING)
		return now + timer_ms(TIMER_STARTUP);
	return now + lease_deadline(&conv->lease) - convs_now(conv->convs);
}

fallible keeper_settle(struct conv *conv, struct run *run)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);
	bool cold = false;

	tell_step(run, "sandbox_provision");
	TRY(faults_meet_until(FAULT_LAUNCH, conv->id, startup_ends(conv)), "start in time");
	TRY(seam->provision(seam->arg, &site, &cold), "provide a sandbox");
	tell_step(run, "disk_check");
	if (!conv->prepared)
		TRY(admission_ask(conv));
	tell_step(run, "workspace_setup");
	TRY(admission_prepared(conv, seam->prepare(seam->arg, &site)), "prepare the workspace");
	conv->prepared = true;
	return OK;
}

static fallible start_runner(struct conv *conv)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);
	struct seam_launch what = {
		.argv = (const char *const *)conv->argv,
		.env = &conv->env,
		.instance = conv->lease.instance,
		.generation = conv->lease.generation,
	};
	struct run *run = conv_first(conv);
	int fd = -1;

	TRY(keeper_settle(conv, run));
	tell_step(run, "runner_start");
	TRY(seam->launch(seam->arg, &site, &what, &conv->lease.place, &fd), "start the runner");
	return keeper_talk(conv, fd);
}

// The place is written down once it is known; without it the runner is found by its marks.
static fallible keeper_launch(struct conv *conv)
{
	struct err *err = start_runner(conv);

	if (err)
		return launch_failed(conv, LEASE_LAUNCH_FAILED, err);
	return book_commit(conv, &(struct book_change){.session = true, .lease = &conv->lease});
}

static fallible keeper_attach(struct conv *conv)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);
	struct run *run = conv_first(conv);
	struct err *err;
	int fd = -1;

	if (conv->lease.state == LEASE_STARTING && run && run->state == RUN_QUEUED) {
		runs_log_step(run, "sandbox_provision");
		runs_log_step(run, "disk_check");
		runs_log_step(run, "workspace_setup");
		runs_log_step(run, "runner_start");
	}
	if (conv->talk && !conv->talk->closed) {
		link_greet(conv->talk);
		conv_note_alive(conv);
		return OK;
	}
	err = seam->attach(seam->arg, &site, &conv->lease, &fd);
	if (!err)
		err = keeper_talk(conv, fd);
	if (err && conv->lease.state == LEASE_STARTING)
		return launch_failed(conv, LEASE_UNREADY, err);
	err_free(err); // an active one has its grace; others are looked at when they are wanted
	return OK;
}

static fallible keeper_recheck(struct conv *conv)
{
	struct hearing hearing = {.event = {.kind = LEASE_RECHECKED}};
	auto_free struct seam_view *view = mem_new_of(struct seam_view);

	attempt_look(conv, view);
	hearing.event.seen = seam_judge(view, &conv->lease);
	if (hearing.event.seen == LEASE_SEES_MATCH)
		hearing.event.seen = LEASE_SEES_OTHER;
	return keeper_hear(conv, &hearing);
}

static fallible keeper_act(struct conv *conv, unsigned todo)
{
	if (todo & LEASE_DO_ALERT) {
		conv->convs->alerts++;
		log_event(LOG_ERROR, "alert", "alert", "lease_quarantined", "severity", "critical",
			  "session", conv->id, "sandbox", conv->box, "reason",
			  lease_reason_word(conv->lease.reason), "error", conv->lease.error, NULL);
	}
	if (todo & LEASE_DO_STOP)
		attempt_start(conv);
	if (todo & LEASE_DO_LAUNCH)
		return keeper_launch(conv);
	if (todo & LEASE_DO_ATTACH)
		return keeper_attach(conv);
	if (todo & LEASE_DO_LOOK)
		return keeper_recheck(conv);
	return OK;
}

// ------------------------------------------------------------------------------ hearing

static void tell_log(const struct conv *conv, const struct lease *was,
		     const struct lease_step *step)
{
	const struct lease *now = &conv->lease;
	char row[8], generation[24], attempts[12];

	snprintf(row, sizeof(row), "%d", step->row);
	snprintf(generation, sizeof(generation), "%llu", (unsigned long long)now->generation);
	snprintf(attempts, sizeof(attempts), "%u", now->attempts);
	log_event(LOG_INFO, "lease", "tenant", conv->tenant, "session", conv->id, "sandbox",
		  conv->box, "row", row, "from", lease_state_word(was->state), "to",
		  lease_state_word(now->state), "instance", now->instance, "generation", generation,
		  "reason", now->reason ? lease_reason_word(now->reason) : NULL, "attempt",
		  now->attempt[0] ? now->attempt : NULL, "attempts",
		  lease_is_fenced(now) ? attempts : NULL, "error",
		  now->error[0] ? now->error : NULL, NULL);
}

// The run has ended in the store: its readers learn of it, and memory lets it go.
void keeper_end_run(struct run *run)
{
	if (!runs_is_over(run))
		return;
	conv_unreserve(run->conv); // what it took can be seen by now
	runs_log_end(run);
	runs_unlist(run);
}

static fallible keeper_commit(struct conv *conv, struct hearing *hearing, const struct lease *next,
			      unsigned todo, struct run **out_lost)
{
	struct run *lost = todo & LEASE_DO_FAIL_RUNS ? conv_running(conv) : NULL;
	struct run_before before = {0};
	struct book_change change = {.lease = next};
	struct err *err;

	if (lost == hearing->run)
		lost = NULL;
	if (hearing->run)
		change.runs[change.run_count++] = hearing->run;
	if (lost) {
		before = runs_mark(lost);
		runs_set_end(lost, &hearing->lost);
		change.runs[change.run_count++] = lost;
	}
	err = book_commit(conv, &change);
	if (err && lost)
		runs_undo(lost, &before);
	if (err && hearing->run)
		runs_undo(hearing->run, &hearing->before);
	if (!err)
		*out_lost = lost;
	return err;
}

// A runner that did not start in time is an orphan until it is verified gone; one whose run took
// too long is stuck.
static void note_orphan(struct conv *conv, const struct lease *was, int64_t now_ms)
{
	int64_t due = lease_deadline(was);

	if (was->state == LEASE_STARTING && lease_is_fenced(&conv->lease) && due && now_ms >= due) {
		conv->convs->orphans += !conv->orphaned;
		conv->orphaned = true;
	}
	if (conv->lease.state == LEASE_NONE && conv->orphaned) {
		conv->convs->orphans_ended++;
		conv->orphaned = false;
	}
	if (conv->lease.state == LEASE_NONE && conv->stuck) {
		conv->convs->stuck_ended++;
		conv->stuck = false;
	}
}

fallible keeper_hear(struct conv *conv, struct hearing *hearing)
{
	struct lease_event event = hearing->event;
	struct run *first = conv_first(conv), *lost = NULL;
	char instance[LEASE_INSTANCE_LEN + 1], attempt[LEASE_ATTEMPT_LEN + 1];
	auto_free struct lease *was = mem_new_of(struct lease);
	auto_free struct lease *next = mem_new_of(struct lease);
	struct lease_step step;

	lease_new_instance(instance);
	lease_new_attempt(attempt);
	event.now_ms = convs_now(conv->convs);
	event.instance = instance;
	if (event.kind != LEASE_STOPPED)
		event.attempt = attempt;
	event.has_accepted = conv_running(conv) != NULL;
	event.has_queued = first && first->state == RUN_QUEUED && !conv->deleting;
	if (event.has_accepted && !event.run)
		event.run = conv_running(conv)->id;
	if (!hearing->lost.state)
		hearing->lost = (struct run_end){RUN_FAILED, "runner_lost", "its runner was lost"};
	*was = conv->lease;
	step = lease_hear(&conv->lease, &event, next);
	if (step.changed || hearing->run)
		TRY(keeper_commit(conv, hearing, next, step.todo, &lost), "keep the lease of %s",
		    conv->id);
	if (step.changed) {
		tell_log(conv, was, &step);
		note_orphan(conv, was, event.now_ms);
		conv->convs->attempts += step.row == 18;
		conv->swept |= conv->deleting && (step.row == 20 || step.row == 25);
		if (!lease_is_owned(&conv->lease) || conv->lease.generation != was->generation)
			keeper_drop_talk(conv);
	} else if (step.row == 19 || step.row == 24) {
		log_event(LOG_INFO, "lease.unchanged", "session", conv->id, "row",
			  step.row == 19 ? "19" : "24", "state",
			  lease_state_word(conv->lease.state), NULL);
	}
	if (lost)
		keeper_end_run(lost);
	if (hearing->run)
		keeper_end_run(hearing->run);
	bell_ring(&conv->changed);
	return keeper_act(conv, step.todo);
}

fallible keeper_tell(struct conv *conv, enum lease_event_kind kind, const char *error)
{
	struct hearing hearing = {.event = {.kind = kind, .error = error}};

	return keeper_hear(conv, &hearing);
}
