// The ring's own state, for keyring.c and keyring_tenants.c alone.
#pragma once

#include "manager/keyring.h"
#include "store/keys.h"

struct keyring {
	struct manager *manager;
	struct store *store;
	struct map *by_hash, *by_id; // of struct key, owned
	void (*revoked)(void *arg, const char *key);
	void *revoked_arg;
	struct timer expiry; // the next key that ends by itself, or a look at the clock
	int64_t looked_ms;   // wall clock up to which all that ended was told of
};

void keyring_add(struct keyring *ring, const struct key *key);
void keyring_take(struct keyring *ring, struct key *key); // frees it, and tells whoever listens
fallible tenant_bad(void);
fallible tenant_absent(struct str name);
