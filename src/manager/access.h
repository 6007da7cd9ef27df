// Who may do what: asked once, here, before anything is looked up, whatever the door. What somebody
// may not see is not there for them: the same words, the same work.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "manager/table.h"
#include "types/who.h"

enum access {
	ACCESS_READ,	  // see sandboxes and templates
	ACCESS_MAKE,	  // create, change, pause and delete sandboxes
	ACCESS_USE,	  // run commands in them
	ACCESS_TEMPLATES, // add and remove templates
	ACCESS_KEYS,	  // manage keys: all, or those of one's own tenant
	ACCESS_OPERATOR,  // tenants, cleanup, audit: what is the operator's alone
};

// FORBIDDEN not_allowed.
fallible access_ask(const struct who *who, enum access what);
// Whether what belongs to `tenant`, and to the sandbox `box` ("": to none), is theirs to know of.
bool access_sees(const struct who *who, const char *tenant, const char *box);
// The sandbox of that id, short id or name, if it is theirs to know of; NULL: absent. A name is one
// of their own tenant.
struct entry *access_find(const struct manager *manager, const struct who *who, struct str key);
