#include "inbox/escort.h"

#include "base/clock.h"

struct escort {
	struct entry *entry;
	struct task *guarded; // NULL: it is over
	struct task *own;
};

static bool goes_on(const struct escort *escort)
{
	return escort->guarded && escort->entry->record.state == STATE_RUNNING &&
	       box_is_alive(escort->entry->box);
}

static void look_on(void *arg)
{
	struct escort *escort = arg;
	auto_err err = NULL;

	while (!err && goes_on(escort))
		err = bell_wait(&escort->entry->changed, CLOCK_NEVER);
	if (escort->guarded) {
		task_cancel(escort->guarded);
		// It is freed by whoever ends it.
		escort->own = NULL;
		return;
	}
	entry_drop(escort->entry);
	free(escort);
}

struct escort *escort_begin(const struct place *place)
{
	struct escort *escort = mem_new_of(struct escort);

	entry_hold(place->visit.entry);
	escort->entry = place->visit.entry;
	escort->guarded = task_current();
	escort->own = task_start(door_of(place->x)->loop, "escort", look_on, escort);
	return escort;
}

void escort_end(struct escort *escort)
{
	if (!escort)
		return;
	escort->guarded = NULL;
	if (escort->own) {
		task_cancel(escort->own);
		return;
	}
	entry_drop(escort->entry);
	free(escort);
}
