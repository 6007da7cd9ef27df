// A task beside the transfer waits for changes of the sandbox and cancels the transfer's task. A
// reader needs no such task: readers are in a list of their sandbox, which is walked once READ_MS
// after deletion. The object is freed by cancel_on_delete_end(), or by its own task if that still
// runs.
#include "gateway/cancel_on_delete.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/weak.h"

#define READ_MS 3000 // from the deletion of a sandbox until its readers are cancelled

struct cancel_on_delete {
	struct entry *entry;
	struct task *transfer; // the transfer's task; NULL: it has ended
	struct task *own;
	cancel_on_delete_holds *holds; // NULL: always true
	const void *arg;	       // valid as long as `guarded` is
	struct http *x;		       // likewise
	struct link link;	       // in entry->readers
	bool reads;
};

static bool goes_on(const struct cancel_on_delete *cancel_on_delete, int64_t *out_until)
{
	*out_until = CLOCK_NEVER;
	if (weak(CANCEL_ON_DELETE))
		return cancel_on_delete->transfer;
	return cancel_on_delete->transfer && entry_is_alive(cancel_on_delete->entry) &&
	       (!cancel_on_delete->holds ||
		cancel_on_delete->holds(cancel_on_delete->arg, out_until));
}

static void cut_off(struct cancel_on_delete *cancel_on_delete)
{
	http_reset(cancel_on_delete->x);
	task_cancel(cancel_on_delete->transfer);
}

static void cancel_on_delete_look_on(void *arg)
{
	struct cancel_on_delete *cancel_on_delete = arg;
	auto_err err = NULL;
	int64_t until;

	while (!err && goes_on(cancel_on_delete, &until)) {
		err = condition_wait(&cancel_on_delete->entry->changed, until);
		if (err && err_kind(err) == ERR_TIMEOUT)
			err_free(take_ptr(err));
	}
	if (cancel_on_delete->transfer) {
		cut_off(cancel_on_delete);
		// cancel_on_delete_end() frees it.
		cancel_on_delete->own = NULL;
		return;
	}
	entry_unref(cancel_on_delete->entry);
	free(cancel_on_delete);
}

static struct cancel_on_delete *cancel_on_delete_new(struct entry *entry, struct http *x)
{
	struct cancel_on_delete *cancel_on_delete = mem_new_of(struct cancel_on_delete);

	entry_ref(entry);
	cancel_on_delete->entry = entry;
	cancel_on_delete->transfer = task_current();
	cancel_on_delete->x = x;
	return cancel_on_delete;
}

struct cancel_on_delete *cancel_on_delete_begin_while(struct entry *entry, struct http *x,
						      cancel_on_delete_holds *holds,
						      const void *arg)
{
	struct cancel_on_delete *cancel_on_delete = cancel_on_delete_new(entry, x);

	cancel_on_delete->holds = holds;
	cancel_on_delete->arg = arg;
	cancel_on_delete->own = task_start(entry->manager->loop, "cancel_on_delete",
					   cancel_on_delete_look_on, cancel_on_delete);
	return cancel_on_delete;
}

struct cancel_on_delete *cancel_on_delete_begin(struct entry *entry, struct http *x)
{
	return cancel_on_delete_begin_while(entry, x, NULL, NULL);
}

static void readers_task(void *arg)
{
	struct entry *entry = arg;

	err_free(task_sleep_until(loop_now(entry->manager->loop) + READ_MS));
	list_each (at, &entry->readers) {
		struct cancel_on_delete *cancel_on_delete = link_of(at, struct cancel_on_delete,
								    link);

		link_drop(at); // its task ends when it runs next
		cut_off(cancel_on_delete);
	}
	entry_unref(entry);
}

static void readers_gone(struct entry *entry)
{
	if (weak(CANCEL_ON_DELETE) || link_empty(&entry->readers))
		return;
	entry_ref(entry);
	task_start(entry->manager->loop, "readers.end", readers_task, entry);
}

struct cancel_on_delete *cancel_on_delete_begin_reader(struct entry *entry, struct http *x)
{
	struct cancel_on_delete *cancel_on_delete = cancel_on_delete_new(entry, x);

	cancel_on_delete->reads = true;
	link_add(&entry->readers, &cancel_on_delete->link);
	entry->gone = readers_gone;
	if (!entry->listed)
		readers_gone(entry);
	return cancel_on_delete;
}

void cancel_on_delete_end(struct cancel_on_delete *cancel_on_delete)
{
	if (!cancel_on_delete)
		return;
	cancel_on_delete->transfer = NULL;
	if (cancel_on_delete->reads)
		link_drop(&cancel_on_delete->link);
	if (cancel_on_delete->own) {
		task_cancel(cancel_on_delete->own);
		return;
	}
	entry_unref(cancel_on_delete->entry);
	free(cancel_on_delete);
}
