// Events on their way to the store and to whoever follows them. Nobody waits for one: it is durable
// soon after (STORE_TOLD_MS), in order with the records that it tells of, and then the bell rings.
#pragma once

#include "loop/task.h"
#include "store/events.h"
#include "types/event.h"
#include "types/record.h"

#define PUBLISH_KEEP 50000 // events of a tenant that are kept at most

struct publish {
	struct store *store;   // NULL: nothing is told
	struct condition told; // rings when there are more
};

void publish_init(struct publish *tell, struct store *store);
// Copied; its id and, when it is 0, its time are set here.
void publish_event(struct publish *tell, const struct store_event *event);
// Of a box. `reason` and `from` are fields of the event; NULL or "": left out.
void publish_box(struct publish *tell, enum event_kind kind, const struct record *record,
		 const char *reason, const char *from);
// What a change of state means to others, if anything.
void publish_move(struct publish *tell, const struct record *record, enum state before);
