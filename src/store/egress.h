// The ledger of what left the boxes: a row for each verdict, and the sums of each box, which stay
// exact when rows are forgotten. Rows and sums change in one transaction.
#pragma once

#include "store/store.h"

struct store_egress_row {
	uint64_t id; // given here, counted for each box
	int64_t time_ms;
	const char *name, *address; // "": unknown
	uint16_t port;
	bool allowed;
	const char *rule, *reason; // "": none
	uint64_t requests, bytes_out, bytes_in;
	int64_t duration_ms;
};

struct store_egress_sums {
	uint64_t connections, requests, bytes_out, bytes_in, denied;
	uint64_t last; // number of the newest row; 0: there was none
	bool opaque;   // some requests are connections that nobody looked into
};

// One row of a box, and what it adds to the sums. `serial` is the sender's own number for it, below
// 2^63: one that was written before changes nothing, so whoever does not know may write it again.
struct store_egress_entry {
	const char *tenant, *box;
	uint64_t serial;
	uint64_t connections, denied; // that it stands for
	bool opaque;
	struct store_egress_row row;
};
// Of each box the newest STORE_EGRESS_KEEP rows stay, and a few more: the ledger is bounded without
// anybody's doing. Denials stay longer: the newest STORE_EGRESS_KEEP_DENIED of them.
#define STORE_EGRESS_KEEP 10000
#define STORE_EGRESS_KEEP_DENIED 2500
fallible store_egress_add_in(struct db *db, const struct store_egress_entry *entry);

// Up to `max` rows of a box behind `after`, oldest first; `last` is what to go on from. The words
// live in the arena.
struct store_egress_page {
	struct store_egress_row *at;
	size_t count;
	uint64_t last;
	struct store_egress_sums sums;
};
fallible store_egress_page(struct store *store, const char *box, uint64_t after, size_t max,
			   struct arena *arena, struct store_egress_page *out);
fallible store_egress_sums(struct store *store, const char *box, struct store_egress_sums *out);
// Everything of a box that is gone.
fallible store_egress_forget(struct store *store, const char *box);
fallible store_egress_forget_in(struct db *db, const char *box);
// The same of all boxes that have no record: for a janitor.
fallible store_egress_forget_gone(struct store *store);
// Forgets rows before that time, and what was allowed but for the newest `keep` of each box. Sums
// stay. In steps: nobody waits for all of it.
fallible store_egress_prune(struct store *store, int64_t before_ms, uint64_t keep,
			    uint64_t *out_count);
