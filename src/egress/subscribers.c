// Subscriptions to the ledger, one shared object per box. subscribers_ring() counts up and wakes
// the waiters, so that a change between a read of the ledger and the wait is not lost.
#include "egress/subscribers.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "loop/task.h"

struct subscribers {
	struct map *by_box;
};

struct subscriber {
	struct subscribers *all; // NULL: freed
	char *box;
	struct condition condition;
	uint64_t count;
	uint32_t holders;
};

struct subscribers *subscribers_new(void)
{
	struct subscribers *subscribers = mem_new_of(struct subscribers);

	subscribers->by_box = map_new();
	return subscribers;
}

void subscribers_free(struct subscribers *subscribers)
{
	size_t at = 0;
	struct str box;
	void *subscriber;

	if (!subscribers)
		return;
	while (map_next(subscribers->by_box, &at, &box, &subscriber))
		((struct subscriber *)subscriber)->all = NULL;
	map_free(subscribers->by_box);
	free(subscribers);
}

void subscribers_ring(struct subscribers *subscribers, const char *box)
{
	struct subscriber *subscriber = map_count(subscribers->by_box)
						? map_get(subscribers->by_box, str_of(box))
						: NULL;

	if (!subscriber)
		return;
	subscriber->count++;
	condition_signal(&subscriber->condition);
}

struct subscriber *subscriber_new(struct subscribers *subscribers, const char *box)
{
	struct subscriber *subscriber = map_get(subscribers->by_box, str_of(box));

	if (!subscriber) {
		subscriber = mem_new_of(struct subscriber);
		subscriber->all = subscribers;
		subscriber->box = mem_str(box);
		condition_init(&subscriber->condition);
		map_put(subscribers->by_box, str_of(box), subscriber);
	}
	subscriber->holders++;
	return subscriber;
}

void subscriber_free(struct subscriber *subscriber)
{
	if (!subscriber || --subscriber->holders)
		return;
	if (subscriber->all)
		map_take(subscriber->all->by_box, str_of(subscriber->box));
	free(subscriber->box);
	free(subscriber);
}

uint64_t subscribers_count(const struct subscriber *subscriber)
{
	return subscriber->count;
}

fallible subscribers_wait(struct subscriber *subscriber, uint64_t count, int64_t deadline)
{
	while (subscriber->count == count)
		TRY(condition_wait(&subscriber->condition, deadline));
	return OK;
}
