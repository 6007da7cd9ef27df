// Nobody takes it all. Connections at work and memory for requests are there for all tenants; each
// has an account of what it holds, and may hold no more than is left for the others, times its
// weight. So one alone gets half, two greedy ones a third each, and whoever comes next finds room.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct fair_share {
	uint32_t weight;
	uint32_t busy; // requests under way
	size_t held;   // bytes of the hoard
};

struct shares;
struct shares *shares_new(void);
void shares_free(struct shares *shares); // takes NULL
// The account of that name, made at first; it lives as long as the shares.
struct fair_share *shares_of(struct shares *shares, struct str name, uint32_t weight);

// One more request under way, of at most `max` in all. EXHAUSTED fair_share_exceeded.
fallible fair_share_enter(struct shares *shares, struct fair_share *fair_share, uint32_t max);
void fair_share_leave(struct shares *shares, struct fair_share *fair_share);
// May it have `mine` of `max` when all together would have `all`?
bool fair_share_is_fair(const struct fair_share *fair_share, size_t mine, size_t all, size_t max);
