// Fair sharing of connections and request memory among tenants. Each tenant has an account, which
// may hold at most as much as is left free, times its weight. So a single tenant gets half, two
// greedy ones a third each, and a new one always finds room.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct fair_share {
	uint32_t weight;
	uint32_t busy; // running requests
	size_t held;   // bytes of memory_quota
};

struct shares;
struct shares *shares_new(void);
void shares_free(struct shares *shares); // takes NULL
// The account of that name, made at first use; it lives as long as the shares.
struct fair_share *shares_of(struct shares *shares, struct str name, uint32_t weight);

// Adds a running request, of at most `max` in all. EXHAUSTED fair_share_exceeded.
fallible fair_share_enter(struct shares *shares, struct fair_share *fair_share, uint32_t max);
void fair_share_leave(struct shares *shares, struct fair_share *fair_share);
// Whether the account may have `mine` of `max` when all together would have `all`.
bool fair_share_is_fair(const struct fair_share *fair_share, size_t mine, size_t all, size_t max);
