// The limit on client data in memory: bodies and messages, complete or partial. Small ones are part
// of a connection's cost. Large ones share one limit, so that many clients, or one with many
// connections, cannot make the process hold more.
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "http/fair_share.h"

#define MEMORY_QUOTA_SMALL (64 * 1024)
#define MEMORY_QUOTA_MAX (256u << 20)

// One holder's part of the limit. Zeroed: nothing held, no account.
struct memory_quota {
	size_t held;
	struct fair_share *share; // the tenant's account; NULL: only the common limit applies
};

// Sets the held bytes. EXHAUSTED too_much_at_once, fair_share_exceeded: the old value stays.
fallible memory_quota_hold(struct memory_quota *memory_quota, size_t bytes);
// For bytes that are already counted elsewhere and move here: never fails.
void memory_quota_move(struct memory_quota *memory_quota, size_t bytes);
void memory_quota_drop(struct memory_quota *memory_quota);
// Assigns the held bytes to an account from now on.
void memory_quota_join(struct memory_quota *memory_quota, struct fair_share *fair_share);
size_t memory_quota_sum(void);
