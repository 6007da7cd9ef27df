// Idempotency keys: what was answered under a key is answered again, and nothing is done twice.
#pragma once

#include "base/secret.h"
#include "loop/task.h"
#include "store/store.h"

#define PLEDGE_MAX 10000
#define PLEDGE_AGE_MS (24ll * 3600 * 1000)
#define PLEDGE_WAIT_MS 60000

struct pledges;
struct pledge;

struct pledges *pledges_new(struct loop *loop);
void pledges_free(struct pledges *all);
// Knows again what was answered before, and keeps what is answered from now on. The store is
// borrowed. Blocks: before the loop runs.
fallible pledges_load(struct pledges *all, struct store *store);
// Something was made under a key, but whether that was answered is not known: `mark` is of
// pledge_mark(), `made` names it.
void pledges_made(struct pledges *all, const char *mark, const char *made);

// Claims `key` for the request whose bytes hash to `hash`. *out_first: the caller does the work and
// then calls pledge_keep(), or pledge_drop() alone if it failed, so that another may try. Otherwise
// the answer stands in *out until pledge_drop(). A second request under a key that is being worked
// on waits for the first. INVALID bad_key; CONFLICT idempotency_mismatch for other bytes.
// Each has keys of its own; `who` has no slash.
fallible pledge_claim_of(struct pledges *all, const char *who, struct str key,
			 const uint8_t hash[SECRET_HASH], struct pledge **out, bool *out_first);
fallible pledge_claim(struct pledges *all, struct str key, const uint8_t hash[SECRET_HASH],
		      struct pledge **out, bool *out_first); // of the operator
// Key and request, to be written down with what is made.
#define PLEDGE_MARK (2 * (2 * SECRET_HASH) + 2)
void pledge_mark(const struct pledge *pledge, char out[PLEDGE_MARK]);
// What was made under it before a restart; NULL: nothing. It has no answer then: pledge_keep() one,
// or pledge_void() it, when what was made is no longer there, and claim again.
const char *pledge_made(const struct pledge *pledge);
void pledge_void(struct pledge *pledge); // drops it
void pledge_keep(struct pledge *pledge, int status, struct str place, struct str body);
void pledge_drop(struct pledge *pledge);
static inline void auto_pledge_(struct pledge **pledge)
{
	if (*pledge)
		pledge_drop(*pledge);
}
#define auto_pledge on_exit_call(auto_pledge_) struct pledge *

int pledge_status(const struct pledge *pledge);
struct str pledge_place(const struct pledge *pledge); // of the Location header
struct str pledge_body(const struct pledge *pledge);
