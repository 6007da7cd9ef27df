// What clients have sent and what waits in memory: bodies and messages, whole or in the making. A
// small one is part of what a connection costs anyway; the large ones share one bound, so that many
// clients, or one with many connections, cannot make the process hold more than that.
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "http/share.h"

#define HOARD_SMALL (64 * 1024)
#define HOARD_MAX (256u << 20)

// One holder's part of it. Zeroed: none, and nobody's.
struct hoard {
	size_t held;
	struct share *share; // whose it is; NULL: only the common bound holds
};

// It holds `bytes` now. EXHAUSTED too_much_at_once, share_spent: it may not, and holds what it
// held.
fallible hoard_hold(struct hoard *hoard, size_t bytes);
// For bytes that are counted elsewhere already and move here: never fails.
void hoard_move(struct hoard *hoard, size_t bytes);
void hoard_drop(struct hoard *hoard);
// Whose it is from now on, with what it holds.
void hoard_join(struct hoard *hoard, struct share *share);
size_t hoard_sum(void);
