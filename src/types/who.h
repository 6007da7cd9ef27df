// The principal of a request. The gateway authenticates once; everything behind it gets the
// principal as a parameter. It holds no pointers, so it can be copied and outlive the request.
#pragma once

#include <stdbool.h>

#include "base/id.h"

#define WHO_TENANT_MAX 31 // of a tenant's name: it prefixes the names of its templates
#define WHO_KEY_LEN 20	  // "key-" and 16 hex digits
#define WHO_NAME_MAX 62
#define WHO_WEB_LEN 21 // "dash-" and 16 hex digits

enum who_role {
	WHO_NOBODY,
	WHO_OPERATOR, // has the key of the data directory, or an equal one: sees every tenant
	WHO_TENANT,   // has a key of one tenant: sees that tenant's objects
	WHO_BOX,      // has the credential of one sandbox: may work in that one
};

// clang-format off
//	  bit       word         what a key with it may do
#define WHO_SCOPES(X) \
	X(READ,      "read",      "see sandboxes and templates") \
	X(MAKE,      "make",      "make, change, pause and delete sandboxes") \
	X(USE,       "use",       "run commands and use files in sandboxes") \
	X(TEMPLATES, "templates", "add and remove templates") \
	X(ADMIN,     "admin",     "manage keys and secrets") \
	X(MONITOR,   "monitor",   "read metrics and alerts of the host, nothing else")
// clang-format on
enum who_scope_bit {
#define X(name, word, what) WHO_BIT_##name,
	WHO_SCOPES(X)
#undef X
		WHO_BIT_COUNT
};
enum who_scope {
#define X(name, word, what) WHO_MAY_##name = 1 << WHO_BIT_##name,
	WHO_SCOPES(X)
#undef X
		WHO_MAY_ALL = (1 << WHO_BIT_COUNT) - 1
};

struct who {
	enum who_role role;
	unsigned scopes;		 // bits of enum who_scope
	bool may_host;			 // start from the template `host`
	char name[WHO_NAME_MAX + 1];	 // for the log
	char tenant[WHO_TENANT_MAX + 1]; // "": of the operator
	char box[ID_BOX_LEN + 1];	 // "": any; else that one alone
	char key[WHO_KEY_LEN + 1];	 // its id; "": not a key that can be revoked
	char web[WHO_WEB_LEN + 1];	 // the id of a dashboard session; "": none
};

// cove itself, for actions by its own rules: the janitor, idle sleep, recovery.
#define WHO_COVE                                                                                   \
	((struct who){                                                                             \
		.role = WHO_OPERATOR, .scopes = WHO_MAY_ALL, .may_host = true, .name = "cove"})

// The holder of the operator's key in the data directory.
#define WHO_KEYHOLDER                                                                              \
	((struct who){.role = WHO_OPERATOR,                                                        \
		      .scopes = WHO_MAY_ALL,                                                       \
		      .may_host = true,                                                            \
		      .name = "operator"})

// [a-z0-9][a-z0-9-]{0,30}
bool who_is_tenant(struct str name);
