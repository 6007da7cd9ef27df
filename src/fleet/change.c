#include "fleet/change.h"

#include "base/mem.h"
#include "fleet/access.h"
#include "fleet/life.h"
#include "fleet/shells.h"

static void copy(struct pairs *to, const struct pairs *from)
{
	for (size_t i = 0; i < from->count; i++)
		pairs_set(to, str_of(from->at[i].name), str_of(from->at[i].value));
}

static void swap(struct pairs *a, struct pairs *b)
{
	struct pairs held = *a;

	*a = *b;
	*b = held;
}

fallible change_terms(struct fleet *fleet, const struct who *who, struct str key,
		      const struct json *object)
{
	struct entry *entry = NULL;

	TRY(access_ask(who, ACCESS_MAKE));
	entry = table_find(fleet, key);
	return entry ? terms_read(object, &entry->record.terms) : life_absent();
}

fallible change_box(struct fleet *fleet, const struct who *who, struct str key,
		    const struct json *object, const struct record **out)
{
	static const char *const known[] = {
		"labels", "env", "sleepAfter", "keepAlive", "containerTimeouts", "baseUrl", NULL};
	auto_pairs labels = {0}, env = {0};
	struct entry *entry = NULL;

	TRY(access_ask(who, ACCESS_MAKE));
	entry = table_find(fleet, key);
	if (!entry)
		return life_absent();
	if (object) {
		TRY(json_want(object, "body", JSON_OBJECT));
		TRY(json_only(object, known));
		copy(&labels, &entry->record.labels);
		copy(&env, &entry->record.env);
		TRY(pairs_change_labels(json_get(object, "labels"), &labels));
		TRY(pairs_change_env(json_get(object, "env"), &env));
		TRY(terms_read(object, &entry->record.terms));
		swap(&labels, &entry->record.labels);
		swap(&env, &entry->record.env);
		if (entry->box)
			shells_tell_env(entry->box, &entry->record.env, json_get(object, "env"));
		fleet->changes++;
	}
	*out = &entry->record;
	return OK;
}
