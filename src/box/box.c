// A box is a socket to its pid 1, two counters of the kernel and a few cgroups. It is alive from
// the greeting of pid 1 until that socket ends. A pid 1 that breaks the protocol is no longer read:
// every exec ends as box_lost, and the owner is called, which has the box destroyed.
//
// A box is freed at the end of the loop turn in which the last reference is dropped, since
// callbacks of its socket may be on the stack.
#include "box/box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "box/pipe.h"
#include "box/private.h"
#include "box/tape.h"

void box_end_kinds(struct box *box, enum box_end how)
{
	for (const struct box_kind *kind = box->kinds; kind->name; kind++)
		if (kind->tell[how])
			kind->tell[how](box);
}

void box_free_later(struct deferred *deferred)
{
	struct box *box = link_of(deferred, struct box, free_later);

	channel_close(&box->channel);
	if (box->tape_budget)
		tape_budget_on_lack(box->tape_budget, NULL, NULL);
	box_end_kinds(box, BOX_END_FREED);
	tape_budget_drop(box->tape_budget);
	if (box->has_folder)
		tape_remove_folder(box->loop, box->tapes_dir, box->id);
	free(box);
}

// Called when the output budget is used up: drops the oldest ended output.
static bool box_make_room(void *arg)
{
	struct box *box = arg;

	for (const struct box_kind *kind = box->kinds; kind->name; kind++)
		if (kind->let_oldest_go && kind->let_oldest_go(box))
			return true;
	return false;
}

struct tape_budget *box_tape_budget(struct box *box)
{
	if (!box->tape_budget) {
		box->tape_budget = tape_budget_new(UINT64_MAX);
		tape_budget_on_lack(box->tape_budget, box_make_room, box);
	}
	return box->tape_budget;
}

void box_keep_output(struct box *box, uint64_t max, uint64_t floor, struct tape_quota *quota)
{
	tape_budget_set(box_tape_budget(box), max, floor, quota);
}

void box_ref(struct box *box)
{
	box->refs++;
}

void box_unref(struct box *box)
{
	if (--box->refs == 0)
		loop_defer(box->loop, &box->free_later);
}

void box_free(struct box *box)
{
	if (!box)
		return;
	box->lost = NULL;
	box_end_kinds(box, BOX_END_LEFT);
	if (box->tape_budget)
		tape_budget_leave(box->tape_budget); // the quota's owner may be freed now
	box_unref(box);
}

static void lose(struct box *box, const char *why)
{
	void (*lost)(struct box *, void *) = box->lost;

	if (box->phase >= BOX_BROKEN)
		return; // a box that reported BROKEN then closes its socket: the first reason
			// stands
	if (!box->stopping && box->phase == BOX_ALIVE)
		log_event(LOG_WARN, "box.lost", "sandbox", box->id, "why", why, NULL);
	box->phase = BOX_LOST;
	condition_signal(&box->greeted);
	box_ref(box);
	box_end_kinds(box, BOX_END_LOST);
	box->lost = NULL;
	if (lost && !box->stopping)
		lost(box, box->lost_arg);
	box_unref(box);
}

void box_break(struct box *box, const char *why)
{
	channel_close(&box->channel);
	lose(box, why);
}

void box_on_lost(struct channel *channel, const char *why)
{
	lose(link_of(channel, struct box, channel), why);
}

void box_set_user(struct box *box, const char *user)
{
	snprintf(box->user, sizeof(box->user), "%s", user);
}

bool box_is_alive(const struct box *box)
{
	return box->phase == BOX_ALIVE && !box->stopping;
}

void box_on_loss(struct box *box, void (*lost)(struct box *box, void *arg), void *arg)
{
	box->lost = lost;
	box->lost_arg = arg;
}

uint32_t box_execs(const struct box *box)
{
	return box->exec_count;
}

void box_prepare(void)
{
	pipe_prepare();
}

const struct stall_at *box_at(const struct box *box)
{
	return &box->at;
}
