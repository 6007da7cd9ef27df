// Every interleaving of a session actor, its runners and its crashes, within bounds: two runs, two
// crashes, a few faults, one foreign runner, one deletion. The actor is that of agent/actor in
// small: observe, handle, commit, act; a crash or a failed commit may come between any two of
// these. The lease itself is the real function.
//
// Invariants are checked in every reachable state; that queued work drains is checked
// by going on from each of them without further faults.
#include "explore.h"

// ------------------------------------------------------------------------ the actor's moves

static enum lease_seen truth(const struct world *w)
{
	if (!w->alive && !w->leaked)
		return LEASE_SEES_NOTHING;
	if (!w->leaked && w->generation && w->alive == 1 << w->generation)
		return LEASE_SEES_MATCH;
	return LEASE_SEES_OTHER;
}

static struct lease_event event_of(const struct world *w, enum lease_event_kind kind)
{
	static char instance[GENERATIONS + 1][LEASE_INSTANCE_LEN + 1];
	char *fresh = instance[w->next_generation & GENERATIONS];

	snprintf(fresh, sizeof(instance[0]), "instance_%032d", w->next_generation);
	return (struct lease_event){
		.kind = kind,
		.now_ms = T,
		.instance = fresh,
		.attempt = TRY_NOW,
		.run = "run_1",
		.reason = kind == LEASE_STOP ? LEASE_FOR_SESSION_DELETE : LEASE_FOR_NO_REASON,
		.has_accepted = w->accepted > 0,
		.has_queued = w->queued > 0,
	};
}

static bool leased_lives(const struct world *w)
{
	return w->generation && (w->alive & 1 << w->generation);
}

// Runs are stored with the lease, in one commit.
static void settle_runs(struct world *w, unsigned todo, enum lease_event_kind kind)
{
	if ((todo & LEASE_DO_FAIL_RUNS) && w->accepted) {
		w->accepted--;
		w->done++;
	}
	if (kind == LEASE_ACCEPTED && w->state == LEASE_ACTIVE) {
		w->queued--;
		w->accepted++;
	}
	if (kind == LEASE_COMPLETED && w->state == LEASE_WARM) {
		w->accepted--;
		w->done++;
		w->taken = 0;
	}
}

// Hears, commits, and stands before the deed. A commit may fail: then nothing has happened.
static void hear(struct search *all, const struct world *from, const struct lease_event *event)
{
	struct world to = *from;
	struct lease lease;
	struct lease_step step;

	unfold(from, &lease);
	step = lease_handle(&lease, event, &lease);
	if (step.changed && from->faults) { // the commit fails
		to.faults--;
		to.pc = from->pc == DOWN ? DOWN : IDLE;
		to.seen = to.changed = 0;
		visit(all, &to);
		to = *from;
	}
	if (step.changed) {
		fold(&to, &lease);
		check_change(from, &to);
		settle_runs(&to, step.todo, event->kind);
		if (to.state > LEASE_ACTIVE || to.generation != from->generation)
			to.attached = 0;
	}
	to.todo = step.todo & (LEASE_DO_LAUNCH | LEASE_DO_ATTACH | LEASE_DO_STOP | LEASE_DO_LOOK);
	to.pc = to.todo ? DOING : IDLE;
	to.seen = to.changed = 0;
	visit(all, &to);
}

static void tell(struct search *all, const struct world *w, enum lease_event_kind kind)
{
	struct lease_event event = event_of(w, kind);

	hear(all, w, &event);
}

// A look may fail, which is not absence.
static void look(struct search *all, const struct world *w, enum pc then)
{
	struct world to = *w;

	to.pc = (uint8_t)then;
	to.seen = (uint8_t)truth(w);
	to.changed = 0;
	visit(all, &to);
	if (w->faults) {
		to.faults--;
		to.seen = LEASE_SEES_FAILED;
		visit(all, &to);
	}
}

static void launch(struct search *all, const struct world *w)
{
	struct world to = *w;

	law(w->state == LEASE_STARTING, "a launch has a lease that says so");
	law(!(w->launched & 1 << w->generation), "a generation is launched once");
	to.todo &= (uint8_t)~LEASE_DO_LAUNCH;
	to.pc = to.todo ? DOING : IDLE;
	to.attached = 1;
	if (w->faults) { // it does not start, and the keeper learns that by its absence
		struct world failed = to;

		failed.faults--;
		visit(all, &failed);
	}
	to.launched |= (uint8_t)(1 << w->generation);
	to.alive |= (uint8_t)(1 << w->generation);
	to.taken = 0;
	visit(all, &to);
}

static void stop_result(struct search *all, const struct world *w, enum lease_seen seen,
			const char *attempt)
{
	struct lease_event event = event_of(w, LEASE_STOPPED);

	event.seen = seen;
	event.attempt = attempt;
	hear(all, w, &event);
}

// One attempt: signals go only while the lease still says that this attempt is under way.
static void try_stop(struct search *all, const struct world *w)
{
	struct world to = *w;

	law(w->state == LEASE_STOPPING, "no signal without a lease that says stopping");
	to.todo = 0;
	to.pc = IDLE;
	if (w->faults) {
		struct world hung = to;

		hung.faults--;
		stop_result(all, &hung,
			    truth(w) == LEASE_SEES_NOTHING ? LEASE_SEES_FAILED : truth(w), TRY_NOW);
		hung.late = 1; // no answer at all: the deadline ends it, the answer comes late
		visit(all, &hung);
	}
	to.alive = to.leaked = to.taken = 0;
	stop_result(all, &to, LEASE_SEES_NOTHING, TRY_NOW);
}

static void act(struct search *all, const struct world *w)
{
	struct world to = *w;

	if (w->todo & LEASE_DO_LAUNCH) {
		launch(all, w);
	} else if (w->todo & LEASE_DO_STOP) {
		try_stop(all, w);
	} else if (w->todo & LEASE_DO_LOOK) {
		to.todo = 0;
		look(all, &to, RECHECKED);
	} else {
		to.todo = 0;
		to.attached = 1;
		to.pc = IDLE;
		visit(all, &to);
	}
}

static void hand_over(struct search *all, const struct world *w)
{
	struct world to = *w;

	to.taken = 1; // the runner has it before the store knows
	tell(all, &to, LEASE_ACCEPTED);
	visit(all, &to);
}

static void idle(struct search *all, const struct world *w)
{
	bool wants = w->queued && !w->deleted && !w->accepted && w->next_generation < GENERATIONS;

	if (wants && (w->state == LEASE_NONE || w->state == LEASE_WARM ||
		      ((w->state == LEASE_STARTING || w->state == LEASE_READY) && !w->attached)))
		look(all, w, LOOKED);
	if (wants && w->state == LEASE_QUARANTINED)
		tell(all, w, LEASE_FORCE);
	if (w->state == LEASE_STARTING && w->attached)
		tell(all, w, leased_lives(w) ? LEASE_HEALTHY : LEASE_UNREADY);
	if (w->state == LEASE_READY && wants && leased_lives(w) && w->attached)
		hand_over(all, w);
	if (w->state == LEASE_ACTIVE && w->attached && w->taken && leased_lives(w)) {
		tell(all, w, LEASE_COMPLETED);
		tell(all, w, LEASE_RUN_FAILED);
	}
	if (w->state != LEASE_NONE && w->state != LEASE_ACTIVE &&
	    (w->state != LEASE_QUARANTINED || w->has_recheck))
		tell(all, w, LEASE_TIME);
	if (w->state == LEASE_ACTIVE)
		tell(all, w, LEASE_SICK);
}

// Requests of clients come in any state of the actor.
static void ask(struct search *all, const struct world *w)
{
	struct world to = *w;
	struct lease_event event;
	struct lease lease;
	struct lease_step step;

	for (int which = 0; which < 2; which++) {
		if (which ? w->deleted : !w->cuts)
			continue;
		to = *w;
		if (which)
			to.deleted = 1;
		else
			to.cuts--;
		event = event_of(&to, which ? LEASE_STOP : LEASE_INTERRUPT);
		if (to.pc == IDLE) {
			hear(all, &to, &event);
			continue;
		}
		unfold(&to, &lease);
		step = lease_handle(&lease, &event, &lease);
		if (!step.changed)
			continue;
		fold(&to, &lease);
		check_change(w, &to);
		settle_runs(&to, step.todo, event.kind);
		to.attached = 0;
		to.changed = 1;
		visit(all, &to);
	}
}

static void crash(struct search *all, const struct world *w)
{
	struct world to = *w;

	to.crashes--;
	to.pc = DOWN;
	to.todo = to.seen = to.changed = to.attached = to.late = 0;
	visit(all, &to);
	// What was ordered last may still be carried out: before anybody looks again, never after.
	if (w->pc == DOING && (w->todo & LEASE_DO_LAUNCH)) {
		to.launched |= (uint8_t)(1 << w->generation);
		to.alive |= (uint8_t)(1 << w->generation);
		to.taken = 0;
		visit(all, &to);
	}
	if (w->pc == DOING && (w->todo & LEASE_DO_STOP)) {
		to.alive = to.leaked = to.taken = 0;
		visit(all, &to);
	}
}

static void suffer(struct search *all, const struct world *w)
{
	struct world to = *w;

	if (w->crashes && w->pc != DOWN)
		crash(all, w);
	if (w->alive && w->deaths) {
		to.alive = to.taken = 0;
		to.deaths--;
		visit(all, &to);
	}
	to = *w;
	if (w->leaked_all && w->pc != DOING) {
		to.leaked_all--;
		to.leaked = 1;
		visit(all, &to);
	}
	if (w->late && w->pc == IDLE) {
		to = *w;
		to.late = 0;
		stop_result(all, &to, LEASE_SEES_NOTHING, TRY_LATE);
	}
}

static void restart(struct search *all, const struct world *w)
{
	struct lease_event event = event_of(w, LEASE_FOUND);
	struct world blind = *w;

	event.seen = truth(w);
	hear(all, w, &event);
	if (!w->faults)
		return;
	blind.faults--;
	event.seen = LEASE_SEES_FAILED;
	hear(all, &blind, &event);
}

static void step_keeper(struct search *all, const struct world *w)
{
	struct lease_event event;
	struct world to = *w;

	switch (w->pc) {
	case DOWN:
		restart(all, w);
		break;
	case DOING:
		// The lease was changed behind the deed's back (an interrupt): the deed is void.
		if (w->changed) {
			to.todo = to.changed = 0;
			to.pc = IDLE;
			visit(all, &to);
		} else {
			act(all, w);
		}
		break;
	case LOOKED:
	case RECHECKED:
		if (w->changed) { // start over
			to.pc = IDLE;
			to.seen = to.changed = 0;
			visit(all, &to);
			break;
		}
		event = event_of(w, w->pc == LOOKED ? LEASE_WANTED : LEASE_RECHECKED);
		event.seen = (enum lease_seen)w->seen;
		hear(all, w, &event);
		break;
	default:
		idle(all, w);
	}
}

static void explore(struct search *all, const struct world *first)
{
	broken = NULL;
	visit(all, first);
	while (all->next < all->count && !broken) {
		struct world w = all->at[all->next++];

		step_keeper(all, &w);
		if (w.pc != DOWN)
			ask(all, &w);
		suffer(all, &w);
	}
}

static void done(struct search *all)
{
	free(all->at);
	free(all->slots);
	*all = (struct search){0};
}

static struct world beginning(void)
{
	struct world w;

	memset(&w, 0, sizeof(w));
	w.next_generation = 1;
	w.queued = 2;
	return w;
}

static bool holds(const char *what, const struct world *first)
{
	struct search all = {0};

	explore(&all, first);
	printf("# %s: %zu states\n", what, all.count);
	if (broken)
		printf("# broken: %s\n", broken);
	done(&all);
	return !broken;
}

TEST(crashes,
     "2.4 no crash between commit and deed makes two runners, reuses a generation or loses a run")
{
	struct world w = beginning();

	w.crashes = 3;
	w.deaths = 1;
	w.cuts = 1;
	CHECK(holds("three crashes", &w));
}

TEST(faults, "2.4 neither do failed commits, failed looks, failed stops and late answers")
{
	struct world w = beginning();

	w.faults = 6;
	w.crashes = 1;
	CHECK(holds("six faults", &w));
}

TEST(leaked_all,
     "2.3 neither do foreign runners, dying ones, interrupts and deletions, all at once")
{
	struct world w = beginning();

	w.crashes = 1;
	w.faults = 2;
	w.leaked_all = 1;
	w.deaths = 1;
	w.cuts = 1;
	CHECK(holds("all at once", &w));
}

// One move of an actor without further faults, the first that is possible.
static bool go_on(struct world *w)
{
	struct search next = {0};
	struct world last = {0};
	bool moved = false;

	step_keeper(&next, w);
	// The last of the moves that step_keeper() lists is the one in which nothing fails; an idle
	// keeper lists first what leads on.
	for (size_t i = 0; i < next.count; i++) {
		if (memcmp(&next.at[i], w, sizeof(*w)) == 0)
			continue;
		last = next.at[w->pc == IDLE ? i : next.count - 1];
		moved = true;
		break;
	}
	done(&next);
	if (moved)
		*w = last;
	return moved;
}

TEST(drains, "from every state that can be reached, queued work drains by itself")
{
	struct search all = {0};
	struct world first = beginning();

	first.crashes = 1;
	first.faults = 5;
	first.deaths = 1;
	explore(&all, &first);
	CHECK(!broken);
	for (size_t i = 0; i < all.count; i++) {
		struct world w = all.at[i];

		if (w.deleted || w.next_generation > 4)
			continue; // it is to end, or the bound of the search is near
		w.crashes = w.faults = w.leaked_all = w.deaths = w.cuts = 0;
		for (int steps = 0; steps < 80 && w.done < 2; steps++)
			if (!go_on(&w))
				break;
		// what no attempt could end is not waited for; its runs are refused.
		if (w.state == LEASE_QUARANTINED && (w.alive || w.leaked))
			continue;
		if (w.done < 2)
			printf("# stuck: %s pc %d queued %d accepted %d\n",
			       lease_state_word((enum lease_state)w.state), w.pc, w.queued,
			       w.accepted);
		CHECK(w.done == 2);
	}
	printf("# %zu states\n", all.count);
	done(&all);
}

TEST(bites,
     "an actor that ignores the fence, or takes a failed observation for absence, is detected")
{
	struct search all = {0};
	struct world w = beginning();

	// As if a look that failed had been read as absence while a runner lived.
	w.state = LEASE_WARM;
	w.generation = 1;
	w.next_generation = 2;
	w.alive = w.launched = 1 << 1;
	w.pc = LOOKED;
	w.seen = LEASE_SEES_NOTHING;
	explore(&all, &w);
	CHECK(broken != NULL);
	done(&all);
	// As if a lease had been written off while its runner lived.
	w = beginning();
	w.alive = w.launched = 1 << 1;
	explore(&all, &w);
	CHECK(broken != NULL);
	done(&all);
}
