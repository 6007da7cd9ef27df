// Named secrets of tenants. A sandbox refers to them by name; its policy gets a copy of value,
// hosts and form. A changed secret is in force from the next request of every such sandbox on.
#pragma once

#include "manager/table.h"
#include "types/hostname.h"
#include "types/policy.h"
#include "types/who.h"

#define SECRETS_OF_TENANT_MAX 1024

struct named_secret {
	struct policy_secret secret;
	char tenant[WHO_TENANT_MAX + 1];
	int64_t created_ms, rotated_ms, used_ms; // wall clock; used 0: never
	char used_host[HOSTNAME_MAX + 1];
	int64_t told_ms; // of the last use that the store was given
};

// {name, hosts, header | query, createdAt, rotatedAt, expiresAt, lastUsedAt, lastUsedHost}; never
// the value.
void named_secrets_put(struct json_out *out, const struct named_secret *secret);

// `body` as policy_secret_read(). Durable on return; *out is borrowed until the next wait. INVALID;
// EXHAUSTED quota; NOT_OFFERED no_network: this host cannot encrypt it.
fallible named_secrets_set(struct manager *manager, const struct who *who, struct str name,
			   const struct json *body, const struct named_secret **out,
			   bool *out_made);
// NOT_FOUND no_secret. UNAVAILABLE state_corrupt, here and below: the secrets could not be read.
fallible named_secrets_get(struct manager *manager, const struct who *who, struct str name,
			   const struct named_secret **out);
// The secrets of the caller's tenant, by name; the caller frees the array. Borrowed likewise.
fallible named_secrets_list(struct manager *manager, const struct who *who,
			    const struct named_secret ***out, size_t *out_count);
// Durable on return; sandboxes that refer to it send nothing for it from then on.
fallible named_secrets_drop(struct manager *manager, const struct who *who, struct str name);
void named_secrets_drop_tenant(struct manager *manager, const char *tenant); // from memory alone

// Fills in the entries of a policy that name a secret of `tenant`. INVALID no_secret: there is none
// of that name; everything else is filled in all the same.
fallible named_secrets_fill(const struct manager *manager, const char *tenant,
			    struct policy *policy);

// Reads all secrets from the store, and asks egress to report their use. Blocks: call it before the
// loop runs, before records are loaded.
void named_secrets_load(struct manager *manager);
void named_secrets_free(struct manager *manager);
