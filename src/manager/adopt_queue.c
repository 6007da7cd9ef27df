// The queue of boxes that await adoption, with backoff per box. Each item belongs to one entry and
// holds a reference to it; an item is either in the queue or with one task. adopt_await() moves an
// item to the front and waits for one attempt.
#include "manager/adopt_queue.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"

#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 5000

void adopt_queue_init(struct adopt_queue *queue, struct loop *loop)
{
	*queue = (struct adopt_queue){.loop = loop};
	link_init(&queue->items);
	condition_init(&queue->changed);
}

void adopt_queue_add(struct adopt_queue *queue, struct entry *entry)
{
	struct adopting *item = mem_new_of(struct adopting);

	item->queue = queue;
	item->entry = entry;
	entry->adopting = item;
	entry_ref(entry);
	link_add(&queue->items, &item->link);
	queue->untried++;
}

static void adopting_take(struct adopting *item)
{
	item->queue->untried -= !item->tries;
	link_drop(&item->link);
}

struct adopting *adopt_queue_next(struct adopt_queue *queue, int64_t *out_next)
{
	int64_t now = loop_now(queue->loop);

	*out_next = CLOCK_NEVER;
	list_each (at, &queue->items) {
		struct adopting *item = link_of(at, struct adopting, link);

		if (item->due_ms <= now) {
			adopting_take(item);
			return item;
		}
		*out_next = item->due_ms < *out_next ? item->due_ms : *out_next;
	}
	return NULL;
}

void adopting_put_off(struct adopting *item, const char *reason)
{
	item->pause_ms = item->pause_ms ? item->pause_ms * 2 : PAUSE_MIN_MS;
	if (item->pause_ms > PAUSE_MAX_MS)
		item->pause_ms = PAUSE_MAX_MS;
	item->due_ms = loop_now(item->queue->loop) + item->pause_ms;
	item->tries++;
	snprintf(item->reason, sizeof(item->reason), "%s", reason);
	link_add(&item->queue->items, &item->link);
	condition_signal(&item->entry->changed);
}

void adopting_end(struct adopting *item)
{
	struct entry *entry = item->entry;

	link_drop(&item->link);
	entry->adopting = NULL;
	condition_signal(&entry->changed);
	entry_unref(entry);
	free(item);
}

static bool is_queued(const struct adopting *item)
{
	return !link_empty(&item->link);
}

static fallible not_adopted(const struct adopting *item)
{
	return err_hint(err_new(UNAVAILABLE, "not_adopted",
				"the sandbox could not be taken up yet after a restart (%s)",
				item->reason[0] ? item->reason : "starting"),
			"it runs on; try again in a moment");
}

fallible adopt_await(struct entry *entry, int64_t deadline)
{
	struct adopting *item = entry->adopting;
	uint32_t tries = item ? item->tries : 0;
	struct err *err = OK;

	if (item && is_queued(item)) {
		link_drop(&item->link);
		link_push(&item->queue->items, &item->link);
		item->due_ms = 0;
		condition_signal(&item->queue->changed);
	}
	while (!err && item && entry->adopting == item && item->tries == tries)
		err = condition_wait(&entry->changed, deadline);
	if (err && err_kind(err) != ERR_TIMEOUT)
		return err;
	err_free(err);
	return item && entry->adopting == item ? not_adopted(item) : OK;
}

bool adopt_is_put_off(const struct entry *entry)
{
	return entry->adopting && entry->adopting->tries && is_queued(entry->adopting);
}

void adopt_cancel(struct entry *entry)
{
	if (!adopt_is_put_off(entry))
		return;
	condition_signal(&entry->adopting->queue->changed);
	entry->moving = false;
	adopting_end(entry->adopting);
}
