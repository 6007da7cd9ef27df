// Idempotency keys: a request that is repeated under its key gets the stored answer, and nothing is
// done twice.
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
// Loads stored answers, and stores new ones from now on. The store is borrowed. Blocks: call before
// the loop runs.
fallible idempotency_keys_load(struct idempotency_keys *all, struct store *store);
// Something was created under a key before a restart, but its answer was not stored: `mark` is of
// idempotency_mark(), `made` names the object.
void idempotency_keys_made(struct idempotency_keys *all, const char *mark, const char *made);

// Claims `key` for the request whose bytes hash to `hash`. *out_first: the caller does the work and
// then calls idempotency_keep(), or only idempotency_drop() if it failed, so that another request
// may try. Otherwise the answer is in *out until idempotency_drop(). A second request under a key
// in progress waits for the first. INVALID bad_key; CONFLICT idempotency_mismatch for other bytes.
// Each `who` has its own keys; it contains no slash.
fallible idempotency_claim_of(struct idempotency_keys *all, const char *who, struct str key,
			      const uint8_t hash[SECRET_HASH], struct idempotency **out,
			      bool *out_first);
fallible idempotency_claim(struct idempotency_keys *all, struct str key,
			   const uint8_t hash[SECRET_HASH], struct idempotency **out,
			   bool *out_first); // for the operator
// Key and request hash, to be stored with the created object.
#define IDEMPOTENCY_MARK (2 * (2 * SECRET_HASH) + 2)
void idempotency_mark(const struct idempotency *idempotency, char out[IDEMPOTENCY_MARK]);
// The object created under it before a restart; NULL: none. It has no answer then: the caller calls
// idempotency_keep(), or, if the object no longer exists, idempotency_void() and claims again.
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
struct str idempotency_location(const struct idempotency *idempotency); // the Location header
struct str idempotency_body(const struct idempotency *idempotency);
