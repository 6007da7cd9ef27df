// Stored credentials at registries, one for each tenant and host. In memory as in the store they
// are encrypted; a pull that a registry asks for a credential decrypts one for its own use.
#pragma once

#include "manager/table.h"
#include "registry/registry.h"
#include "types/who.h"

#define REGISTRIES_OF_TENANT_MAX 64

struct registry_login {
	char tenant[WHO_TENANT_MAX + 1];
	char *host;	// as reference_read() writes it
	char *username; // NULL: an identity token
	char *sealed;	// base64
	bool shared;	// the operator's: for tenants without one of their own
	int64_t created_ms;
};

// {host, username, shared, createdAt}; never the secret.
void registry_logins_put(struct json_out *out, const struct registry_login *login);

// Asks the registry whether it accepts the credential, and stores it. `credential` is taken over.
// *out is borrowed until the next wait. INVALID bad_reference; FORBIDDEN registry_denied,
// not_allowed; EXHAUSTED quota; NOT_OFFERED no_network; errors of registry_get(). Waits.
fallible registry_logins_set(struct manager *manager, const struct who *who, struct str host,
			     struct registry_credential *credential, bool shared,
			     const struct registry_login **out, bool *out_made);
// NOT_FOUND no_registry. UNAVAILABLE state_corrupt, here and below: they could not be read.
fallible registry_logins_get(struct manager *manager, const struct who *who, struct str host,
			     const struct registry_login **out);
// Those of the caller's tenant, by host; the caller frees the array. Borrowed likewise.
fallible registry_logins_list(struct manager *manager, const struct who *who,
			      const struct registry_login ***out, size_t *out_count);
// Durable on return.
fallible registry_logins_drop(struct manager *manager, const struct who *who, struct str host);
void registry_logins_drop_tenant(struct manager *manager, const char *tenant); // memory alone

// The credential of a tenant for that host: its own, else a shared one; untouched if there is none.
// FORBIDDEN registry_denied: it cannot be decrypted.
fallible registry_logins_find(const struct manager *manager, const char *tenant, const char *host,
			      struct registry_credential *out);

// Asks each mirror that the operator has set, in order, the first REGISTRY_MIRRORS_TRIED of them.
// `err` NULL: it answers. Waits.
#define REGISTRY_MIRRORS_TRIED 16
typedef void registry_mirror_fn(void *arg, struct str host, struct str url, const struct err *err);
void registry_mirrors_try(struct manager *manager, registry_mirror_fn *each, void *arg);

// Reads all from the store. Blocks: call it before the loop runs.
void registry_logins_load(struct manager *manager);
void registry_logins_free(struct manager *manager);
