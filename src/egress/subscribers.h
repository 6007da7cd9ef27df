// Subscriptions to changes of a box's ledger. Boxes without a subscriber cost nothing.
#pragma once

#include <stdint.h>

#include "base/err.h"

struct subscribers; // all of them
struct subscriber;  // of one box, shared by all who wait

struct subscribers *subscribers_new(void);
void subscribers_free(struct subscribers *subscribers); // later rings are lost; takes NULL
void subscribers_ring(struct subscribers *subscribers, const char *box);

struct subscriber *subscriber_new(struct subscribers *subscribers, const char *box);
void subscriber_free(struct subscriber *subscriber); // takes NULL
static inline void auto_subscriber_(struct subscriber **subscriber)
{
	subscriber_free(*subscriber);
}
#define auto_subscriber on_exit_call(auto_subscriber_) struct subscriber *
// The number of rings so far. Read it before reading the ledger, then wait for more.
uint64_t subscribers_count(const struct subscriber *subscriber);
// Waits for more rings than `count`; TIMEOUT.
fallible subscribers_wait(struct subscriber *subscriber, uint64_t count, int64_t deadline);
