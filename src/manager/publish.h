// Publishes events to the store and its readers. The caller does not wait: the event is durable
// soon after (STORE_TOLD_MS), in order with the records that it concerns; then `told` is signalled.
#pragma once

#include "loop/task.h"
#include "store/events.h"
#include "types/event.h"
#include "types/record.h"

#define PUBLISH_KEEP 50000 // events of a tenant that are kept at most

struct publish {
	struct store *store;   // NULL: nothing is told
	struct condition told; // signalled when there are more
};

void publish_init(struct publish *publish, struct store *store);
// Copied; the id, and the time when it is 0, are set here.
void publish_event(struct publish *publish, const struct store_event *event);
// An event of a box. `reason` and `from` are fields of the event; NULL or "": left out.
void publish_box(struct publish *publish, enum event_kind kind, const struct record *record,
		 const char *reason, const char *from);
// The event for a change of state, if there is one.
void publish_move(struct publish *publish, const struct record *record, enum state before);
