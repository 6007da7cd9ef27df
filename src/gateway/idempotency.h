// Idempotency keys: what was answered under a key is answered again, and nothing is done twice.
#pragma once

#include "base/secret.h"
#include "loop/task.h"
#include "store/store.h"

#define IDEMPOTENCY_MAX 10000
#define IDEMPOTENCY_AGE_MS (24ll * 3600 * 1000)
#define IDEMPOTENCY_WAIT_MS 60000

struct idempotency_keys;
struct idempotency;

struct idempotency_keys *idempotency_keys_new(struct loop *loop);
void idempotency_keys_free(struct idempotency_keys *all);
// Knows again what was answered before, and keeps what is answered from now on. The store is
// borrowed. Blocks: before the loop runs.
fallible idempotency_keys_load(struct idempotency_keys *all, struct store *store);
// Something was made under a key, but whether that was answered is not known: `mark` is of
// idempotency_mark(), `made` names it.
void idempotency_keys_made(struct idempotency_keys *all, const char *mark, const char *made);

// Claims `key` for the request whose bytes hash to `hash`. *out_first: the caller does the work and
// then calls idempotency_keep(), or idempotency_drop() alone if it failed, so that another may try.
// Otherwise the answer stands in *out until idempotency_drop(). A second request under a key that
// is being worked on waits for the first. INVALID bad_key; CONFLICT idempotency_mismatch for other
// bytes. Each has keys of its own; `who` has no slash.
fallible idempotency_claim_of(struct idempotency_keys *all, const char *who, struct str key,
			      const uint8_t hash[SECRET_HASH], struct idempotency **out,
			      bool *out_first);
fallible idempotency_claim(struct idempotency_keys *all, struct str key,
			   const uint8_t hash[SECRET_HASH], struct idempotency **out,
			   bool *out_first); // of the operator
// Key and request, to be written down with what is made.
#define IDEMPOTENCY_MARK (2 * (2 * SECRET_HASH) + 2)
void idempotency_mark(const struct idempotency *idempotency, char out[IDEMPOTENCY_MARK]);
// What was made under it before a restart; NULL: nothing. It has no answer then: idempotency_keep()
// one, or idempotency_void() it, when what was made is no longer there, and claim again.
const char *idempotency_made(const struct idempotency *idempotency);
void idempotency_void(struct idempotency *idempotency); // drops it
void idempotency_keep(struct idempotency *idempotency, int status, struct str place,
		      struct str body);
void idempotency_drop(struct idempotency *idempotency);
static inline void auto_idempotency_(struct idempotency **idempotency)
{
	if (*idempotency)
		idempotency_drop(*idempotency);
}
#define auto_idempotency on_exit_call(auto_idempotency_) struct idempotency *

int idempotency_status(const struct idempotency *idempotency);
struct str idempotency_place(const struct idempotency *idempotency); // of the Location header
struct str idempotency_body(const struct idempotency *idempotency);
