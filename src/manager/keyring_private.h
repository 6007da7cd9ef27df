// State of the keyring, for keyring.c and keyring_tenants.c alone.
#pragma once

#include "manager/keyring.h"
#include "store/keys.h"

struct keyring {
	struct manager *manager;
	struct store *store;
	struct map *by_hash, *by_id; // of struct key, owned
	void (*revoked)(void *arg, const char *key);
	void *revoked_arg;
	struct timer expiry; // for the next expiry, or the next check of the clock
	int64_t looked_ms;   // wall clock up to which all expiries were handled
};

void keyring_add(struct keyring *ring, const struct key *key);
void keyring_take(struct keyring *ring,
		  struct key *key); // frees the key, and calls the revoke callback
fallible tenant_bad(void);
fallible tenant_absent(struct str name);
