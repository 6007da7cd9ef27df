// Keys and tenants: held in memory, so that a request is known without a wait; kept in the store,
// so that they survive. What was revoked is refused from that moment on.
#pragma once

#include "manager/table.h"
#include "store/store.h"
#include "types/key.h"

struct keyring;

struct keyring *keyring_new(struct manager *manager, struct store *store); // both borrowed
void keyring_free(struct keyring *ring);
// Reads all of it. A row that cannot be read opens nothing, and is told of in the log.
fallible keyring_load(struct keyring *ring);
// Called when a key ends, by its time or before: whoever came in with it has to leave.
void keyring_on_revoke(struct keyring *ring, void (*revoked)(void *arg, const char *key),
		       void *arg);

// Whose secret it is. False: nobody's, or expired. Takes the same time whichever key it is not.
bool keyring_who(const struct keyring *ring, struct str secret, struct who *out);
// Adds what the operator allows the tenant of `who`.
void keyring_lend(const struct keyring *ring, struct who *who);

// Reads {name, tenant, scopes, sandbox, host, expiresIn} and makes the key: durable on return. The
// text is told this once; the caller wipes it. Nobody gives more than they have: FORBIDDEN
// not_allowed; NOT_FOUND no_tenant, no_sandbox; INVALID bad_field.
fallible keyring_make(struct keyring *ring, const struct who *who, const struct json *object,
		      struct key *out, char text[KEY_TEXT_LEN + 1]);
// It opens nothing from now on, whatever is returned. NOT_FOUND no_key.
fallible keyring_revoke(struct keyring *ring, const struct who *who, struct str id);
// Those that they may see, by time; the caller frees *out.
fallible keyring_all(struct keyring *ring, const struct who *who, struct key **out,
		     size_t *out_count);

// Tenants. Reads a body as types/tenant.h says; durable on return. INVALID bad_tenant; CONFLICT
// tenant_shadows: a template's name begins as theirs would.
fallible keyring_set_tenant(struct keyring *ring, const struct who *who, struct str name,
			    const struct json *object, const struct account **out, bool *out_made);
// With all its keys. CONFLICT tenant_in_use while it has sandboxes; NOT_FOUND no_tenant.
fallible keyring_drop_tenant(struct keyring *ring, const struct who *who, struct str name);
fallible keyring_tenant(struct keyring *ring, const struct who *who, struct str name,
			const struct account **out);
// All of them, by name; the caller frees *out, the accounts are borrowed until the next wait.
fallible keyring_tenants(struct keyring *ring, const struct who *who, const struct account ***out,
			 size_t *out_count);
