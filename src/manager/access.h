// Authorisation, asked once per request before anything is looked up, whatever the API. An object
// that the caller may not see is absent for that caller: same message, same work.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "manager/table.h"
#include "types/who.h"

enum access {
	ACCESS_READ,	     // see sandboxes and templates
	ACCESS_MAKE,	     // create, change, pause and delete sandboxes
	ACCESS_USE,	     // run commands in them
	ACCESS_TEMPLATES,    // add and remove templates
	ACCESS_SECRETS,	     // set and remove secrets
	ACCESS_SECRET_NAMES, // see them, without values
	ACCESS_KEYS,	     // manage keys: all, or those of the caller's tenant
	ACCESS_METRICS,	     // see the metrics and alerts of the whole host
	ACCESS_OPERATOR,     // tenants, cleanup, audit: for the operator alone
};

// FORBIDDEN not_allowed.
fallible access_ask(const struct who *who, enum access what);

// The right to create sandboxes and agent sessions. access_create() decides it, once per request;
// a create takes the grant and does not ask again.
struct create_grant {
	const struct who *who; // borrowed
	// Of a sandbox that a durable record of the caller names by its id, and that the caller
	// removes after a crash; else NULL. The record of the sandbox is not waited for, and
	// nothing is built before this has returned OK. It waits for the caller's record.
	fallible (*await_owner)(void *arg);
	void *arg;
};
// FORBIDDEN not_allowed, also for a key of one sandbox.
fallible access_create(const struct who *who, struct create_grant *out);

// True if `who` may know of an object of `tenant` and of the sandbox `box` ("": of no sandbox).
bool access_sees(const struct who *who, const char *tenant, const char *box);
fallible access_absent(struct str key); // NOT_FOUND no_sandbox
// The sandbox of that id, short id or name, if `who` may see it; NULL: absent. Names are looked up
// in the caller's tenant.
struct entry *access_find(const struct manager *manager, const struct who *who, struct str key);
// Asks, and finds the sandbox: FORBIDDEN not_allowed; NOT_FOUND no_sandbox.
fallible access_entry(const struct manager *manager, const struct who *who, enum access what,
		      struct str key, struct entry **out);
