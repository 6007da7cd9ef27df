// Boxes of an earlier daemon that are not adopted yet. Each is retried with backoff; a request for
// a box moves it to the front.
#pragma once

#include "manager/table.h"

struct adopt_queue {
	struct loop *loop;
	struct link items;	  // items that no task works on
	uint32_t untried;	  // of these, the items never tried
	struct condition changed; // an item is due sooner or gone, or a task has ended
};

struct adopting {
	struct adopt_queue *queue;
	struct entry *entry; // referenced; its `adopting` is this item
	struct link link;    // in the queue, unless a task works on it
	uint32_t tries;	     // failed attempts
	uint32_t round;	     // of manager/adopt, in which the last attempt began
	int64_t due_ms;	     // loop time of the next attempt
	int64_t pause_ms;
	char reason[40]; // why the last attempt failed
};

void adopt_queue_init(struct adopt_queue *queue, struct loop *loop);
void adopt_queue_add(struct adopt_queue *queue, struct entry *entry);
// Removes and returns the first item that is due; NULL: *out_next is when the next one will be.
struct adopting *adopt_queue_next(struct adopt_queue *queue, int64_t *out_next);
// An attempt failed: puts the item back with a longer delay.
void adopting_put_off(struct adopting *item, const char *reason);
// The entry is settled or given up. Frees the item.
void adopting_end(struct adopting *item);

// Adopts the entry ahead of all others, and waits for the result. OK: the entry is settled, or
// leaves the table. UNAVAILABLE not_adopted: the attempt failed and will be repeated. The caller
// holds the entry.
fallible adopt_await(struct entry *entry, int64_t deadline);
// True between a failed attempt and the next one.
bool adopt_is_put_off(const struct entry *entry);
// Cancels the retries of an entry. The caller must end the box before its next wait.
void adopt_cancel(struct entry *entry);
