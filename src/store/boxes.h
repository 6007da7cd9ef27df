// Records of sandboxes.
#pragma once

#include "store/store.h"
#include "types/record.h"

// A record as it is stored, and back. Both sides own their words.
struct store_box {
	char id[ID_BOX_LEN + 1];
	char tenant[RECORD_TENANT_MAX];
	char name[ID_NAME_MAX + 1];
	enum state state;
	uint64_t seq;
	char *body; // JSON: the rest
};
void store_box_of(const struct record *record, struct store_box *out);
void store_box_done(struct store_box *box);

// Inserts it, or replaces all of it.
fallible store_boxes_put_in(struct db *db, const struct store_box *box);
fallible store_boxes_drop_in(struct db *db, const char *id); // harmless when it is not there

// Every record, by seq. Those that cannot be read come with `unreadable` and what is known: id,
// tenant and name, as far as they are texts. The caller owns *out.
struct store_boxes {
	struct record *at;
	bool *unreadable;
	size_t count;
	uint64_t last_seq; // the highest that was ever given
};
fallible store_boxes_load(struct store *store, struct store_boxes *out);
void store_boxes_done(struct store_boxes *boxes); // records that were taken must be zeroed
