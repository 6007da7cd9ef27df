// The audit log: who did what to which object. Each row is linked to the previous one by a hash, so
// that a changed, removed or inserted row is detected.
#pragma once

#include "base/secret.h"
#include "store/store.h"

struct store_audit {
	uint64_t id;  // set here: 1, 2, 3 … without a gap
	uint64_t own; // set here: its number among the rows of its tenant
	int64_t time_ms;
	const char *tenant, *who, *action, *target, *outcome; // "": none
	const char *fields;				      // JSON object
	uint8_t hash[SECRET_HASH];			      // computed here
};

// hash = sha256(hash of the previous row, text of the row); the first row's predecessor is 32 zero
// bytes. `out_id` may be NULL.
fallible store_audit_add_in(struct db *db, const struct store_audit *row, uint64_t *out_id);
// Does not wait. done(arg), if any, is called on the loop's thread when the row is durable or lost.
void store_audit_queue(struct store *store, const struct store_audit *row, void (*done)(void *arg),
		       void *arg);

// Up to `max` rows after `after`, of one tenant (NULL: all). `own`: with the tenant's own numbers,
// as in store/events.h. Texts are in the arena.
fallible store_audit_page(struct store *store, uint64_t after, const char *tenant, bool own,
			  size_t max, struct arena *arena, struct store_audit **out,
			  size_t *out_count);

// Verifies the whole chain, page by page beside the writer, from the last prune on.
struct store_audit_proof {
	uint64_t bad;		   // the first inconsistent row; 0: none
	uint64_t count;		   // rows that were checked
	uint8_t head[SECRET_HASH]; // of the last of them
	uint64_t cut;		   // the last pruned row; 0: none
	uint8_t cut_hash[SECRET_HASH];
};
fallible store_audit_verify(struct store *store, struct store_audit_proof *out);

// Removes rows before that time, and all but the newest `keep`. The rest can still be verified:
// number and hash of the last pruned row are stored, and a row of the log records it
// ("audit.prune"), so that pruning is never unnoticed. Prunes in steps of an eighth of the age or
// of `keep`, since each prune adds a row.
#define STORE_AUDIT_PRUNE "audit.prune"
fallible store_audit_prune(struct store *store, int64_t now_ms, int64_t age_ms, uint64_t keep,
			   uint64_t *out_count);
