#include "door/escort.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/weak.h"

struct escort {
	struct entry *entry;
	struct task *guarded; // NULL: it is over
	struct task *own;
	bool (*holds)(const void *arg); // NULL: always
	const void *arg;		// good as long as `guarded` is
};

static bool goes_on(const struct escort *escort)
{
	if (weak(ESCORT))
		return escort->guarded;
	return escort->guarded && escort->entry->record.state == STATE_RUNNING &&
	       box_is_alive(escort->entry->box) && (!escort->holds || escort->holds(escort->arg));
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

struct escort *escort_begin_while(struct entry *entry, bool (*holds)(const void *arg),
				  const void *arg)
{
	struct escort *escort = mem_new_of(struct escort);

	entry_hold(entry);
	escort->entry = entry;
	escort->guarded = task_current();
	escort->holds = holds;
	escort->arg = arg;
	escort->own = task_start(entry->fleet->loop, "escort", look_on, escort);
	return escort;
}

struct escort *escort_begin(struct entry *entry)
{
	return escort_begin_while(entry, NULL, NULL);
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
