// Records of sandboxes.
#pragma once

#include "store/store.h"
#include "types/record.h"

// Converts a record to its stored form and back. Both sides own their texts.
struct store_box {
	char id[ID_BOX_LEN + 1];
	char tenant[RECORD_TENANT_MAX];
	char name[ID_NAME_MAX + 1];
	const char *state; // its word
	uint64_t seq;
	char *body; // JSON: all other fields
};
void store_box_of(const struct record *record, struct store_box *out);
void store_box_done(struct store_box *box);

// Inserts or replaces the whole row.
fallible store_boxes_put_in(struct db *db, const struct store_box *box);
fallible store_boxes_drop_in(struct db *db, const char *id); // OK when it is absent

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
