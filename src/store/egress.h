// The ledger of egress: a row for each verdict, and sums per box, which stay exact when rows are
// removed. Rows and sums change in one transaction.
#pragma once

#include "store/store.h"

struct store_egress_row {
	uint64_t id; // set here, counted per box
	int64_t time_ms;
	const char *name, *address; // "": unknown
	uint16_t port;
	bool allowed;
	const char *rule, *reason; // "": none
	const char *secrets;	   // names of those that were sent, with commas; "": none
	uint64_t requests, bytes_out, bytes_in;
	int64_t duration_ms;
};

struct store_egress_sums {
	uint64_t connections, requests, bytes_out, bytes_in, denied;
	uint64_t last; // id of the newest row; 0: none
	bool opaque;   // some requests are opaque connections
};

// One row of a box, and what it adds to the sums. `serial` is the sender's number for it, below
// 2^63: a repeated one changes nothing, so that an unconfirmed row can be written again.
struct store_egress_entry {
	const char *tenant, *box;
	uint64_t serial;
	uint64_t connections, denied; // that the row represents
	bool opaque;
	struct store_egress_row row;
};
// The newest STORE_EGRESS_KEEP rows of each box are kept, and a few more: the ledger bounds itself.
// Denials are kept longer: the newest STORE_EGRESS_KEEP_DENIED of them.
#define STORE_EGRESS_KEEP 10000
#define STORE_EGRESS_KEEP_DENIED 2500
fallible store_egress_add_in(struct db *db, const struct store_egress_entry *entry);

// Up to `max` rows of a box after `after`, oldest first; `last` is where to continue. Texts are in
// the arena.
struct store_egress_page {
	struct store_egress_row *at;
	size_t count;
	uint64_t last;
	struct store_egress_sums sums;
};
fallible store_egress_page(struct store *store, const char *box, uint64_t after, size_t max,
			   struct arena *arena, struct store_egress_page *out);
fallible store_egress_sums(struct store *store, const char *box, struct store_egress_sums *out);
// Removes everything of a deleted box.
fallible store_egress_forget_in(struct db *db, const char *box);
// The same for all boxes without a record: for the janitor.
fallible store_egress_forget_gone(struct store *store);
// Removes rows before that time, and allowed rows beyond the newest `keep` of each box. Sums stay.
// Runs in steps, so that commits wait only briefly.
fallible store_egress_prune(struct store *store, int64_t before_ms, uint64_t keep,
			    uint64_t *out_count);
