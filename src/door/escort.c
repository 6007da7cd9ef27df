#include "door/escort.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/weak.h"

#define READ_MS 3000 // from the end of a sandbox until its readers are cut off

struct escort {
	struct entry *entry;
	struct task *guarded; // NULL: it is over
	struct task *own;
	escort_holds *holds; // NULL: always
	const void *arg;     // good as long as `guarded` is
	struct http *x;	     // likewise
	struct link link;    // a reader's, in entry->readers
	bool reads;
};

static bool goes_on(const struct escort *escort, int64_t *out_until)
{
	*out_until = CLOCK_NEVER;
	if (weak(ESCORT))
		return escort->guarded;
	return escort->guarded && entry_is_alive(escort->entry) &&
	       (!escort->holds || escort->holds(escort->arg, out_until));
}

static void cut_off(struct escort *escort)
{
	http_reset(escort->x);
	task_cancel(escort->guarded);
}

static void escort_look_on(void *arg)
{
	struct escort *escort = arg;
	auto_err err = NULL;
	int64_t until;

	while (!err && goes_on(escort, &until)) {
		err = bell_wait(&escort->entry->changed, until);
		if (err && err_kind(err) == ERR_TIMEOUT)
			err_free(take_ptr(err));
	}
	if (escort->guarded) {
		cut_off(escort);
		// It is freed by whoever ends it.
		escort->own = NULL;
		return;
	}
	entry_drop(escort->entry);
	free(escort);
}

static struct escort *escort_new(struct entry *entry, struct http *x)
{
	struct escort *escort = mem_new_of(struct escort);

	entry_hold(entry);
	escort->entry = entry;
	escort->guarded = task_current();
	escort->x = x;
	return escort;
}

struct escort *escort_begin_while(struct entry *entry, struct http *x, escort_holds *holds,
				  const void *arg)
{
	struct escort *escort = escort_new(entry, x);

	escort->holds = holds;
	escort->arg = arg;
	escort->own = task_start(entry->fleet->loop, "escort", escort_look_on, escort);
	return escort;
}

struct escort *escort_begin(struct entry *entry, struct http *x)
{
	return escort_begin_while(entry, x, NULL, NULL);
}

static void readers_task(void *arg)
{
	struct entry *entry = arg;

	err_free(task_sleep_until(loop_now(entry->fleet->loop) + READ_MS));
	list_each (at, &entry->readers) {
		struct escort *escort = link_of(at, struct escort, link);

		link_drop(at); // it ends when its task is next
		cut_off(escort);
	}
	entry_drop(entry);
}

static void readers_gone(struct entry *entry)
{
	if (weak(ESCORT) || link_empty(&entry->readers))
		return;
	entry_hold(entry);
	task_start(entry->fleet->loop, "readers.end", readers_task, entry);
}

struct escort *escort_begin_reader(struct entry *entry, struct http *x)
{
	struct escort *escort = escort_new(entry, x);

	escort->reads = true;
	link_add(&entry->readers, &escort->link);
	entry->gone = readers_gone;
	if (!entry->listed)
		readers_gone(entry);
	return escort;
}

void escort_end(struct escort *escort)
{
	if (!escort)
		return;
	escort->guarded = NULL;
	if (escort->reads)
		link_drop(&escort->link);
	if (escort->own) {
		task_cancel(escort->own);
		return;
	}
	entry_drop(escort->entry);
	free(escort);
}
