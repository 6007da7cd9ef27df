// What clients have sent and what waits in memory: bodies and messages, whole or in the making. A
// small one is part of what a connection costs anyway; the large ones share one bound, so that many
// clients, or one with many connections, cannot make the process hold more than that.
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "http/fair_share.h"

#define MEMORY_QUOTA_SMALL (64 * 1024)
#define MEMORY_QUOTA_MAX (256u << 20)

// One holder's part of it. Zeroed: none, and nobody's.
struct memory_quota {
	size_t held;
	struct fair_share *share; // whose it is; NULL: only the common bound holds
};

// It holds `bytes` now. EXHAUSTED too_much_at_once, fair_share_exceeded: it may not, and holds what
// it held.
fallible memory_quota_hold(struct memory_quota *memory_quota, size_t bytes);
// For bytes that are counted elsewhere already and move here: never fails.
void memory_quota_move(struct memory_quota *memory_quota, size_t bytes);
void memory_quota_drop(struct memory_quota *memory_quota);
// Whose it is from now on, with what it holds.
void memory_quota_join(struct memory_quota *memory_quota, struct fair_share *fair_share);
size_t memory_quota_sum(void);
