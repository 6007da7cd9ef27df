// Boxes of an earlier daemon that are not yet adopted. Each is tried when its time has come, and
// again after a pause until it is; a request for one puts it in front.
#pragma once

#include "manager/table.h"

struct adopt_queue {
	struct loop *loop;
	struct link items;	  // those that no task is at
	uint32_t untried;	  // of these, those that no task was at yet
	struct condition changed; // an item is wanted sooner, or is gone; a task has ended
};

struct adopting {
	struct adopt_queue *queue;
	struct entry *entry; // held; its `adopting` is this item
	struct link link;    // in the queue, unless a task is at it
	uint32_t tries;	     // that failed
	uint32_t round;	     // of manager/adopt, in which the last one began
	int64_t due_ms;	     // loop time of the next one
	int64_t pause_ms;
	char reason[40]; // why the last one failed
};

void adopt_queue_init(struct adopt_queue *queue, struct loop *loop);
void adopt_queue_add(struct adopt_queue *queue, struct entry *entry);
// The first whose time has come, taken out; NULL: *out_next is when that will be.
struct adopting *adopt_queue_next(struct adopt_queue *queue, int64_t *out_next);
// A try has failed: back into the queue, with a longer pause than before.
void adopting_put_off(struct adopting *item, const char *reason);
// The entry is settled, or nobody will see to it: *item is gone.
void adopting_end(struct adopting *item);

// Has the entry settled ahead of all others, if it is not yet, and waits for the result. OK: it is
// settled, or leaves the table. UNAVAILABLE not_adopted: it was tried, and will be again. The
// caller holds it.
fallible adopt_await(struct entry *entry, int64_t deadline);
// A try has failed, and the next one has not begun.
bool adopt_is_put_off(const struct entry *entry);
// One that is put off is not tried again: its end is the caller's to see to, before any wait.
void adopt_cancel(struct entry *entry);
