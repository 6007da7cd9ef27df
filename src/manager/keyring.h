// API keys and tenants: in memory, so that authentication does not wait, and in the store. A
// revoked key is refused from the moment of its revocation.
#pragma once

#include "manager/table.h"
#include "store/store.h"
#include "types/key.h"

struct keyring;

struct keyring *keyring_new(struct manager *manager, struct store *store); // both borrowed
void keyring_free(struct keyring *ring);
// Reads all keys and tenants. A row that cannot be read is logged and grants nothing.
fallible keyring_load(struct keyring *ring);
// Called when a key is revoked or expires: connections that used it must be closed.
void keyring_on_revoke(struct keyring *ring, void (*revoked)(void *arg, const char *key),
		       void *arg);

// Finds the owner of a secret. False: unknown or expired. Takes the same time for every wrong
// secret.
bool keyring_who(const struct keyring *ring, struct str secret, struct who *out);
// The rights of the holder of a key now. False: no such key, or it has expired.
bool keyring_key(const struct keyring *ring, const char *id, struct who *out);
// Adds the operator's permissions for the tenant of `who`.
void keyring_lend(const struct keyring *ring, struct who *who);

// Reads {name, tenant, scopes, sandbox, host, expiresIn} and creates the key: durable on return.
// Only this call returns the text; the caller wipes it. FORBIDDEN not_allowed when the key would
// have more rights than its creator; NOT_FOUND no_tenant, no_sandbox; INVALID bad_field.
fallible keyring_make(struct keyring *ring, const struct who *who, const struct json *object,
		      struct key *out, char text[KEY_TEXT_LEN + 1]);
// The key is invalid from now on, whatever is returned. NOT_FOUND no_key.
fallible keyring_revoke(struct keyring *ring, const struct who *who, struct str id);
// The keys that `who` may see, by time; the caller frees *out.
fallible keyring_all(struct keyring *ring, const struct who *who, struct key **out,
		     size_t *out_count);

// Tenants. Reads a body as types/tenant.h says; durable on return. INVALID bad_tenant; CONFLICT
// tenant_shadows: the prefix of a template's name is the tenant's name.
fallible keyring_set_tenant(struct keyring *ring, const struct who *who, struct str name,
			    const struct json *object, const struct account **out, bool *out_made);
// Removes the tenant and all its keys. CONFLICT tenant_in_use while it has sandboxes; NOT_FOUND
// no_tenant.
fallible keyring_drop_tenant(struct keyring *ring, const struct who *who, struct str name);
fallible keyring_tenant(struct keyring *ring, const struct who *who, struct str name,
			const struct account **out);
// All tenants, by name; the caller frees *out, the accounts are borrowed until the next wait.
fallible keyring_tenants(struct keyring *ring, const struct who *who, const struct account ***out,
			 size_t *out_count);
