// A transfer costs no task: a call waits for changes of the sandbox, and a timer for the end of
// what lets the transfer run; both cancel its task. Readers are in a list of their sandbox, which
// is walked once READ_MS after deletion.
#include "gateway/cancel_on_delete.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/weak.h"

#define READ_MS 3000 // from the deletion of a sandbox until its readers are cancelled

struct cancel_on_delete {
	struct entry *entry;
	struct task *transfer;	       // the transfer's task
	struct waiter waiter;	       // for a change of the sandbox
	struct timer timer;	       // for the time after which `holds` may say no
	cancel_on_delete_holds *holds; // NULL: always true
	const void *arg;	       // valid as long as the transfer is
	struct http *x;		       // likewise
	struct link link;	       // in entry->readers
};

static bool goes_on(const struct cancel_on_delete *cancel_on_delete, int64_t *out_until)
{
	*out_until = CLOCK_NEVER;
	if (weak(CANCEL_ON_DELETE))
		return true;
	return entry_is_alive(cancel_on_delete->entry) &&
	       (!cancel_on_delete->holds ||
		cancel_on_delete->holds(cancel_on_delete->arg, out_until));
}

static void cut_off(struct cancel_on_delete *cancel_on_delete)
{
	http_reset(cancel_on_delete->x);
	task_cancel(cancel_on_delete->transfer);
}

static void cancel_on_delete_look(struct cancel_on_delete *cancel_on_delete)
{
	struct loop *loop = cancel_on_delete->entry->manager->loop;
	int64_t until;

	loop_drop_timer(loop, &cancel_on_delete->timer);
	waiter_drop(&cancel_on_delete->waiter);
	if (!goes_on(cancel_on_delete, &until)) {
		cut_off(cancel_on_delete);
		return;
	}
	condition_call(&cancel_on_delete->entry->changed, loop, &cancel_on_delete->waiter);
	if (until != CLOCK_NEVER)
		loop_set_timer(loop, &cancel_on_delete->timer, until);
}

static void on_change(struct deferred *call)
{
	cancel_on_delete_look(link_of(call, struct cancel_on_delete, waiter.call));
}

static void on_time(struct timer *timer)
{
	cancel_on_delete_look(link_of(timer, struct cancel_on_delete, timer));
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
	cancel_on_delete->waiter.call.run = on_change;
	cancel_on_delete->timer.due = on_time;
	cancel_on_delete_look(cancel_on_delete);
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
	waiter_drop(&cancel_on_delete->waiter);
	loop_drop_timer(cancel_on_delete->entry->manager->loop, &cancel_on_delete->timer);
	link_drop(&cancel_on_delete->link);
	entry_unref(cancel_on_delete->entry);
	free(cancel_on_delete);
}
