// Records of sandboxes.
#pragma once

#include "store/store.h"
#include "types/record.h"

// Without a store (NULL) nothing is kept.

// Inserts or replaces the record; durable on return. UNAVAILABLE state_unwritable, state_corrupt.
fallible store_boxes_put(struct store *store, const struct record *record);
// The same for the end of a box, with state deleting. Uses the store's reserve on a full disk.
fallible store_boxes_end(struct store *store, const struct record *record);
// These do not wait.
void store_boxes_queue(struct store *store, const struct record *record);
// Removes the record with everything else of the box: its egress ledger and exposed ports.
void store_boxes_drop(struct store *store, const char *id);
#define STORE_BOX_PORTS "ports/" // exposed ports in store/kv.h, by id
#define STORE_BOX_SYNC "sync/"	 // manifests of syncs, likewise

// Every record, by seq. Unreadable ones have `unreadable` set, and id, tenant and name as far as
// they are texts. The caller owns *out.
struct store_boxes {
	struct record *at;
	bool *unreadable;
	size_t count;
	uint64_t last_seq; // the highest ever used
};
fallible store_boxes_load(struct store *store, struct store_boxes *out);
void store_boxes_done(struct store_boxes *boxes); // zero records that were moved out
