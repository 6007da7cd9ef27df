// The id ranges of boxes: slot n is 65,536 ids from 2^20 + n * 65,536 on, and no two living boxes
// share one. A few slots keep their user namespaces, because making one costs a third of a
// millisecond: those that are free and ready, and IDS_HELD of those that boxes have.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/weak.h"

struct ids;

#define IDS_BASE (1u << 20)
// Free slots with a namespace, kept by ids_refill(). A weak build lives for one attack.
#define IDS_READY (WEAK_BUILD ? 8 : 128)
// Namespaces of boxes that are built, and at most half as many as there may be boxes; the others
// live in their boxes alone.
#define IDS_HELD 2048

// `count` slots; those that the host has given away in /etc/subuid and /etc/subgid are left out.
struct ids *ids_open(uint32_t count);
void ids_close(struct ids *ids);

// A free slot and its user namespace, which stays the slot's. EXHAUSTED no_ids.
fallible ids_take(struct ids *ids, uint32_t *out_slot, int *out_userns);
// The box is built, and its namespace lives in it. *userns is -1 if the slot does not keep it.
void ids_built(struct ids *ids, uint32_t slot, int *userns);
// The slot of a box that an earlier life has built; its namespace lives in the box. False: there is
// no such slot, or somebody has it. Before any ids_take().
bool ids_claim(struct ids *ids, uint32_t slot);
uint32_t ids_base(uint32_t slot);
bool ids_slot(uint32_t base, uint32_t *out_slot); // the other way round; false: it is no slot's
uint32_t ids_taken(const struct ids *ids);
uint32_t ids_resting(const struct ids *ids);
// The box is gone. `clean`: so are its files; else the slot rests until ids_rested().
void ids_give(struct ids *ids, uint32_t slot, bool clean);
void ids_rested(struct ids *ids);
// Makes one namespace more, if some are missing; call it in idle moments. False: nothing to do.
bool ids_refill(struct ids *ids);
bool ids_are_missing(const struct ids *ids); // there would be something to do
bool ids_are_few(const struct ids *ids);     // and not much time to wait with it
