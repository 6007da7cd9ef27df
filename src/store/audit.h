// The audit log: who did what to which, each row bound to the one before by a hash, so that a row
// that was changed, taken out or put in between shows.
#pragma once

#include "base/secret.h"
#include "store/store.h"

struct store_audit {
	uint64_t id; // given here: 1, 2, 3 … without a gap
	int64_t time_ms;
	const char *tenant, *who, *action, *target, *outcome; // "": none
	const char *fields;				      // JSON object
	uint8_t hash[SECRET_HASH];			      // computed here
};

// Waits until it is durable. hash = sha256(hash of the row before, row as text); the first row's
// predecessor is 32 zero bytes. `out` may be NULL.
fallible store_audit_add(struct store *store, const struct store_audit *row, uint64_t *out_id);
fallible store_audit_add_in(struct db *db, const struct store_audit *row, uint64_t *out_id);
// Does not wait. done(arg), if any, is called on the loop's thread when it is durable, or lost.
void store_audit_tell(struct store *store, const struct store_audit *row, void (*done)(void *arg),
		      void *arg);

// Up to `max` rows behind `after`, of one tenant (NULL: of all). `own`: its rows have the tenant's
// own numbers, as in store/events.h. The words live in the arena.
fallible store_audit_page(struct store *store, uint64_t after, const char *tenant, bool own,
			  size_t max, struct arena *arena, struct store_audit **out,
			  size_t *out_count);

// Reads the whole chain, page by page beside the writer, from its cut on.
struct store_audit_proof {
	uint64_t bad;	// the first row that does not follow from the one before; 0: all is well
	uint64_t count; // rows that were read
	uint8_t head[SECRET_HASH]; // of the last of them
	uint64_t cut;		   // the last row that was forgotten; 0: none
	uint8_t cut_hash[SECRET_HASH];
};
fallible store_audit_verify(struct store *store, struct store_audit_proof *out);

// Forgets rows before that time, and all but the newest `keep`. What is left can still be verified:
// the number and the hash of the last row that went are kept, and a row of the log itself says so
// ("audit.prune"), so that nobody cuts the log unseen. It goes by eighths of the age or of `keep`,
// since each cut costs a row.
#define STORE_AUDIT_PRUNE "audit.prune"
fallible store_audit_prune(struct store *store, int64_t now_ms, int64_t age_ms, uint64_t keep,
			   uint64_t *out_count);
