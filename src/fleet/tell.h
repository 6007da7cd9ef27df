// Events on their way to the store and to whoever follows them. Nobody waits for one: it is durable
// soon after (STORE_TOLD_MS), in order with the records that it tells of, and then the bell rings.
#pragma once

#include "loop/task.h"
#include "model/event.h"
#include "model/record.h"
#include "store/events.h"

#define TELL_KEEP 50000 // events of a tenant that are kept at most

struct tell {
	struct store *store; // NULL: nothing is told
	struct bell told;    // rings when there are more
};

void tell_init(struct tell *tell, struct store *store);
// Copied; its id and, when it is 0, its time are set here.
void tell_event(struct tell *tell, const struct store_event *event);
// Of a box. `reason` and `from` are fields of the event; NULL or "": left out.
void tell_box(struct tell *tell, enum event_kind kind, const struct record *record,
	      const char *reason, const char *from);
// What a change of state means to others, if anything.
void tell_move(struct tell *tell, const struct record *record, enum state before);
