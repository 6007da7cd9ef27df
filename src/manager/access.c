// Authorisation: a table from each kind of access to the scope of a key that grants it. A key for
// one sandbox grants nothing outside that sandbox. An object that the caller may not see is
// reported exactly like one that does not exist.
#include "manager/access.h"

#include <stddef.h>
#include <string.h>

#include "base/weak.h"

static const struct {
	unsigned scope;
	const char *words;
} rules[] = {
	[ACCESS_READ] = {WHO_MAY_READ, "see sandboxes"},
	[ACCESS_MAKE] = {WHO_MAY_MAKE, "make or delete sandboxes"},
	[ACCESS_USE] = {WHO_MAY_USE, "run commands"},
	[ACCESS_TEMPLATES] = {WHO_MAY_TEMPLATES, "change templates"},
	[ACCESS_SECRETS] = {WHO_MAY_ADMIN, "set or remove secrets"},
	[ACCESS_SECRET_NAMES] = {WHO_MAY_READ, "see secrets"},
	[ACCESS_KEYS] = {WHO_MAY_ADMIN, "manage keys"},
	[ACCESS_METRICS] = {WHO_MAY_READ | WHO_MAY_MONITOR, "see the metrics of this host"},
	[ACCESS_OPERATOR] = {WHO_MAY_ADMIN, "act as the operator"},
};

// True for access that concerns more than one sandbox: a key for one sandbox never has it.
static bool is_outside_box(enum access what)
{
	return what >= ACCESS_TEMPLATES;
}

static bool may(const struct who *who, enum access what)
{
	if (who->box[0] && is_outside_box(what))
		return false;
	switch (who->role) {
	case WHO_OPERATOR:
		return who->scopes & rules[what].scope;
	case WHO_TENANT:
		if (what == ACCESS_METRICS && who->tenant[0])
			return false;
		return what != ACCESS_OPERATOR && who->scopes & rules[what].scope;
	case WHO_BOX:
		return what == ACCESS_USE;
	default:
		return false;
	}
}

fallible access_ask(const struct who *who, enum access what)
{
	if (who && (may(who, what) || weak(SCOPES)))
		return OK;
	return err_hint(err_new(FORBIDDEN, "not_allowed", "this key may not %s", rules[what].words),
			"use a key with that scope, or the operator's");
}

fallible access_create(const struct who *who, struct create_grant *out)
{
	TRY(access_ask(who, ACCESS_MAKE));
	if (who->box[0])
		return err_hint(err_new(FORBIDDEN, "not_allowed",
					"this key is for one sandbox, and may make no other"),
				"use a key of the tenant");
	*out = (struct create_grant){.who = who};
	return OK;
}

bool access_sees(const struct who *who, const char *tenant, const char *box)
{
	if (!who || who->role == WHO_NOBODY)
		return false;
	if (weak(TENANTS))
		return true;
	if (who->role != WHO_OPERATOR && strcmp(who->tenant, tenant) != 0)
		return false;
	return !who->box[0] || strcmp(who->box, box) == 0;
}

struct entry *access_find(const struct manager *manager, const struct who *who, struct str key)
{
	struct entry *entry = table_find(manager, who->tenant, key);

	return entry && access_sees(who, entry->record.tenant, entry->record.id) ? entry : NULL;
}

fallible access_absent(struct str key)
{
	return err_hint(err_absent("no_sandbox", "sandbox", key),
			"GET /v1/sandboxes lists those there are");
}

fallible access_entry(const struct manager *manager, const struct who *who, enum access what,
		      struct str key, struct entry **out)
{
	struct entry *entry;

	TRY(access_ask(who, what));
	entry = access_find(manager, who, key);
	if (!entry)
		return access_absent(key);
	*out = entry;
	return OK;
}
