// Tenants, and the keys by which they are known. Of a key only its hash is kept.
#pragma once

#include "base/secret.h"
#include "store/store.h"

struct store_tenant {
	const char *id;	  // [a-z0-9][a-z0-9-]*
	const char *body; // JSON of the owner's making: quotas, may_host, network default …
	int64_t created_ms;
};

struct store_key {
	const char *id;		   // public: what lists and logs show
	const char *tenant;	   // "": the operator's own
	const char *name;	   // for people
	uint8_t hash[SECRET_HASH]; // of the whole secret
	uint64_t scopes;
	const char *body;			    // JSON of the owner's making
	int64_t created_ms, expires_ms, revoked_ms; // 0: never, not
};

// All of them wait until they are durable.
fallible store_tenants_put(struct store *store, const struct store_tenant *tenant);
// And its keys, used session ids and ledger. Its events and its rows of the audit log are the
// operator's from then on: they have no numbers of the tenant's, and a new tenant of that name has
// none of them.
fallible store_tenants_drop(struct store *store, const char *id);
fallible store_keys_put(struct store *store, const struct store_key *key);
fallible store_keys_revoke(struct store *store, const char *id, int64_t now_ms); // NOT_FOUND no_key
fallible store_keys_drop(struct store *store, const char *id);

// Everything. The words live in the arena. A row that cannot be read has id, and body == NULL.
struct store_keyring {
	struct store_tenant *tenants;
	size_t tenant_count;
	struct store_key *keys;
	size_t key_count;
};
fallible store_keys_load(struct store *store, struct arena *arena, struct store_keyring *out);
