// A world of leases, runners and runs in few bytes, the laws that hold in it, and the search
// through all that can be reached.
#pragma once

#include <stdlib.h>

#include "base/mem.h"
#include "tap.h"
#include "types/lease.h"
#include "types/timers.h"

#define T 1000000000ll
#define GENERATIONS 7
#define TRY_NOW "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define TRY_LATE "cccccccccccccccccccccccccccccccc"

enum pc {
	IDLE,	   // between two events
	LOOKED,	   // a look for a run is made; the lease may have changed meanwhile
	RECHECKED, // a look at a quarantined lease is made
	DOING,	   // committed, `todo` is not done yet
	DOWN,	   // crashed
};

// Bytes only, zeroed at birth, so that two worlds can be compared as memory.
struct world {
	uint8_t state, next_generation, generation, attempts, reason, has_attempt, has_recheck, run;
	uint8_t pc, seen, todo, changed; // the keeper's
	uint8_t attached;		 // it talks to the leased runner
	uint8_t late;			 // an attempt hangs somewhere; its answer may come
	uint8_t alive, launched;	 // bits by generation
	uint8_t taken;			 // the leased runner works on a run
	uint8_t leaked;			 // a runner that nobody leased
	uint8_t queued, accepted, done;	 // runs, as they are stored
	uint8_t deleted;
	uint8_t crashes, faults, leaked_all, deaths, cuts; // left
};

// ----------------------------------------------------------------- between lease and bytes

static void unfold(const struct world *w, struct lease *lease)
{
	lease_init(lease);
	lease->state = (enum lease_state)w->state;
	lease->next_generation = w->next_generation;
	lease->generation = w->generation;
	lease->attempts = w->attempts;
	lease->reason = (enum lease_reason)w->reason;
	if (w->generation)
		snprintf(lease->instance, sizeof(lease->instance), "instance_%032d", w->generation);
	if (lease->state == LEASE_STARTING || lease->state == LEASE_READY ||
	    lease->state == LEASE_WARM)
		lease->deadline_ms = T;
	if (lease->state == LEASE_STOP_NEEDED)
		lease->next_attempt_ms = T;
	if (w->has_attempt) {
		snprintf(lease->attempt, sizeof(lease->attempt), TRY_NOW);
		lease->attempt_ms = T - timer_ms(TIMER_STOP_ATTEMPT);
	}
	if (lease->state == LEASE_QUARANTINED) {
		lease->exhausted_ms = T;
		lease->recheck_ms = w->has_recheck ? T : 0;
	}
	if (w->run)
		snprintf(lease->run, sizeof(lease->run), "run_1");
}

static void fold(struct world *w, const struct lease *lease)
{
	w->state = (uint8_t)lease->state;
	w->next_generation = (uint8_t)lease->next_generation;
	w->generation = (uint8_t)lease->generation;
	w->attempts = (uint8_t)lease->attempts;
	w->reason = (uint8_t)lease->reason;
	w->has_attempt = lease->attempt[0] != 0;
	w->has_recheck = lease->recheck_ms != 0;
	w->run = lease->run[0] != 0;
}

// ------------------------------------------------------------------------ what must hold

static const char *broken; // the first law that did not hold

static void law(bool holds, const char *which)
{
	if (!holds && !broken)
		broken = which;
}

static int count(uint8_t bits)
{
	return __builtin_popcount(bits);
}

static void check_state(const struct world *w)
{
	law(count(w->alive) <= 1, "never two runners at once");
	law(w->queued + w->accepted + w->done == 2, "no run is lost, none is settled twice");
	law(w->accepted <= 1, "one run at a time");
	law(w->state != LEASE_NONE || !w->alive, "none means that no runner of ours lives");
}

static void check_change(const struct world *from, const struct world *to)
{
	bool owned = from->state <= LEASE_WARM;

	law(to->next_generation >= from->next_generation, "generations never go back");
	law(to->state == LEASE_NONE || owned || to->state == LEASE_STARTING ||
		    to->attempts >= from->attempts,
	    "attempts are not reset while a stop is due");
	law(from->state < LEASE_STOP_NEEDED || to->state == LEASE_NONE ||
		    to->state >= LEASE_STOP_NEEDED,
	    "a fenced lease opens only by way of none");
}

// -------------------------------------------------------------------------- the search

struct search {
	struct world *at;
	size_t count, room, next;
	uint32_t *slots;
	size_t slot_count;
};

static uint64_t hash(const struct world *w)
{
	const uint8_t *bytes = (const uint8_t *)w;
	uint64_t sum = 1469598103934665603ull;

	for (size_t i = 0; i < sizeof(*w); i++)
		sum = (sum ^ bytes[i]) * 1099511628211ull;
	return sum;
}

static void rehash(struct search *all)
{
	all->slot_count = all->slot_count ? all->slot_count * 2 : 1 << 16;
	free(all->slots);
	all->slots = mem_new(all->slot_count * sizeof(*all->slots));
	for (size_t i = 0; i < all->count; i++) {
		size_t slot = hash(&all->at[i]) % all->slot_count;

		while (all->slots[slot])
			slot = (slot + 1) % all->slot_count;
		all->slots[slot] = (uint32_t)(i + 1);
	}
}

static void visit(struct search *all, const struct world *w)
{
	size_t slot;

	check_state(w);
	if (all->count * 2 >= all->slot_count)
		rehash(all);
	slot = hash(w) % all->slot_count;
	for (; all->slots[slot]; slot = (slot + 1) % all->slot_count)
		if (memcmp(&all->at[all->slots[slot] - 1], w, sizeof(*w)) == 0)
			return;
	if (all->count == all->room) {
		all->room = all->room ? all->room * 2 : 4096;
		all->at = mem_grow(all->at, all->room, sizeof(*all->at));
	}
	all->at[all->count++] = *w;
	all->slots[slot] = (uint32_t)all->count;
}
