// The id ranges of boxes: slot n is the 65,536 ids from 2^20 + n * 65,536, and no two living boxes
// share one. Making a user namespace costs a third of a millisecond, so some are kept: those of
// free slots that are ready, and IDS_HELD of those in use.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/weak.h"

struct ids;

#define IDS_BASE (1u << 20)
// Free slots with a namespace, kept up by ids_refill(). A weak build serves one attack only.
#define IDS_READY (WEAK_BUILD ? 8 : 128)
// Namespaces held for slots in use, at most half as many as there may be boxes; the others are kept
// alive by their boxes alone.
#define IDS_HELD 2048

// `count` slots, without those that /etc/subuid and /etc/subgid assign to others.
struct ids *ids_open(uint32_t count);
void ids_close(struct ids *ids);

// A free slot and its user namespace, which the slot owns. EXHAUSTED no_ids.
fallible ids_take(struct ids *ids, uint32_t *out_slot, int *out_userns);
// The box runs and keeps its namespace alive. *userns becomes -1 if the slot closes its own fd.
void ids_built(struct ids *ids, uint32_t slot, int *userns);
// Takes the slot of a box that an earlier warden built. False: there is no such slot, or it is in
// use. Call before any ids_take().
bool ids_claim(struct ids *ids, uint32_t slot);
uint32_t ids_base(uint32_t slot);
bool ids_slot(uint32_t base, uint32_t *out_slot); // the reverse; false: no slot has this base
uint32_t ids_taken(const struct ids *ids);
uint32_t ids_resting(const struct ids *ids);
// The box is gone. `clean`: so are its files; else the slot rests until ids_rested().
void ids_give(struct ids *ids, uint32_t slot, bool clean);
void ids_rested(struct ids *ids);
// Makes one more namespace if some are missing; call when idle. False: nothing to do.
bool ids_refill(struct ids *ids);
bool ids_are_missing(const struct ids *ids); // ids_refill() has something to do
bool ids_are_few(const struct ids *ids);     // fewer than half are ready
