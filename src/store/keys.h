// Tenants and their API keys. Only the hash of a key is stored.
#pragma once

#include "base/secret.h"
#include "store/store.h"

struct store_tenant {
	const char *id;	  // [a-z0-9][a-z0-9-]*
	const char *body; // the owner's JSON: quotas, may_host, network default …
	int64_t created_ms;
};

struct store_key {
	const char *id;		   // public: shown in lists and logs
	const char *tenant;	   // "": the operator's
	const char *name;	   // for people
	uint8_t hash[SECRET_HASH]; // of the whole secret
	uint64_t scopes;
	const char *body;			    // the owner's JSON
	int64_t created_ms, expires_ms, revoked_ms; // 0: never, not
};

// All of these wait until they are durable.
fallible store_tenants_put(struct store *store, const struct store_tenant *tenant);
// Removes the tenant with its keys, used session ids and ledger. Its events and audit rows stay for
// the operator, without the tenant's numbers: a new tenant of that name sees none of them.
fallible store_tenants_drop(struct store *store, const char *id);
fallible store_keys_put(struct store *store, const struct store_key *key);
fallible store_keys_revoke(struct store *store, const char *id, int64_t now_ms); // NOT_FOUND no_key

// All rows. Texts are in the arena. An unreadable row has its id, and body == NULL.
struct store_keyring {
	struct store_tenant *tenants;
	size_t tenant_count;
	struct store_key *keys;
	size_t key_count;
};
fallible store_keys_load(struct store *store, struct arena *arena, struct store_keyring *out);
