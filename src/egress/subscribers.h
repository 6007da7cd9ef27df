// Listeners that wait for news of a box's ledger. Only boxes that somebody listens to cost
// anything.
#pragma once

#include <stdint.h>

#include "base/err.h"

struct subscribers; // all of them
struct subscriber;  // one box's, shared by those who listen

struct subscribers *subscribers_new(void);
void subscribers_free(struct subscribers *subscribers); // whoever still listens hears nothing any
							// more; takes NULL
void subscribers_ring(struct subscribers *subscribers, const char *box);

struct subscriber *subscriber_new(struct subscribers *subscribers, const char *box);
void subscriber_free(struct subscriber *subscriber); // takes NULL
static inline void auto_subscriber_(struct subscriber **subscriber)
{
	subscriber_free(*subscriber);
}
#define auto_subscriber on_exit_call(auto_subscriber_) struct subscriber *
// How often it has rung. Who looks at the ledger first asks this, then waits for more than it.
uint64_t subscribers_count(const struct subscriber *subscriber);
// Until it has rung more often than that; TIMEOUT.
fallible subscribers_wait(struct subscriber *subscriber, uint64_t count, int64_t deadline);
